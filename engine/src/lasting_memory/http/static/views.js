// What has a dialog of its own: policies, and what the model sees.

import { html, useState } from "./lib/preact.js";
import { Dialog, Form, useAct, useTold } from "./parts.js";
import { Lines, size } from "./text.js";
import { filled, t } from "./texts.js";

/** The rules of one's organization: to read, and with the permission for it to change. */
export function Policies({ session: { client, me }, onClose }) {
  const { told, problem, again } = useTold(client, "/memory/policies");
  const [editing, setEditing] = useState(null); // the key of a file; empty for a new one
  const [refused, act] = useAct();
  const save = act(async ({ target }) => {
    const { key = editing, content } = Object.fromEntries(new FormData(target));
    const body = { namespace: told.namespace, key, value: { content, encoding: "utf-8" } };
    await client.send("PUT", "/store/items", { body });
    setEditing(null);
    again();
  });
  const close = () => setEditing(null);
  const form = (content) => html`<${Form} save=${t("policies.save")} problem=${refused} onSave=${save} onCancel=${close}>
    ${!editing && html`<label>${t("policies.name")}<input name="key" required defaultValue="/" placeholder="/travel.md" /></label>`}
    <label>${t("policies.rules")}<textarea name="content" rows="12" dir="auto" defaultValue=${content}></textarea></label>
  <//>`;
  const mayEdit = told?.writable && editing === null;
  const button = (key, name, label) =>
    mayEdit && html`<button onClick=${() => setEditing(key)} aria-label=${label}>${name}</button>`;
  const file = ({ key, path, bytes, content, in_prompt: inPrompt }) => html`<article key=${key}>
    <h3>${path}</h3>
    <p class="quiet">${inPrompt ? size(bytes) : t("policies.refers", { size: size(bytes) })}</p>
    ${editing === key ? form(content) : html`<${Lines} text=${content ?? t("policies.not_shown")} />`}
    ${content !== null && button(key, t("policies.change"), t("policies.change_path", { path }))}
  </article>`;
  return html`<${Dialog} title=${t("policies.title", { organization: me.org_id })} problem=${problem} onClose=${onClose}>
    <p>${t("policies.about", { organization: me.org_id })} ${told && !told.writable && t("policies.may_read")}</p>
    ${told?.files.length === 0 && html`<p class="quiet">${t("policies.none")}</p>`}
    ${told?.files.map(file)}
    ${editing === "" && form("")}${button("", t("policies.add"))}
  <//>`;
}

const BLOCKS = {
  agent: t("prompt.block_agent"),
  policies: t("prompt.block_policies"),
  memory: t("prompt.block_memory"),
  temporary: t("prompt.block_temporary"),
  skills: t("prompt.block_skills"),
};

/** What the model is shown of a person at their next turn, with sizes and what was left out. */
export function Prompt({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/prompt");
  const block = ({ name, bytes, tokens, budget, left_out: leftOut, text }) => html`<article key=${name}>
    <h3>${Object.hasOwn(BLOCKS, name) ? BLOCKS[name] : name}</h3>
    <p class="quiet">${t("prompt.tokens", { count: tokens, size: size(bytes) })}${budget && t("prompt.budget", { size: size(budget) })}</p>
    ${leftOut.length > 0 && html`<p class="problem">${t("prompt.left_out", { what: leftOut.join("; ") })}</p>`}
    <div class="text prompt" dir="auto">${text}</div>
  </article>`;
  const total = (told?.blocks ?? []).reduce((sum, { tokens }) => sum + tokens, told?.tools_tokens ?? 0);
  return html`<${Dialog} title=${t("prompt.title")} problem=${problem} onClose=${onClose}>
    <p>${t("prompt.about")}</p>
    ${told && html`<p>${filled("prompt.together", { tokens: html`<b>${t("prompt.all_tokens", { count: total })}</b>` })}</p>`}
    ${told?.tools.length > 0 && html`<p>${t("prompt.tools", { count: told.tools_tokens, tools: told.tools.join(", ") })}</p>`}
    ${told?.blocks.map(block)}
  <//>`;
}
