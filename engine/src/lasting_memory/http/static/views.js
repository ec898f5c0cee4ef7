// What has a dialog of its own: policies, and what the model sees.

import { html, useState } from "./lib/preact.js";
import { Dialog, Form, useAct, useTold } from "./parts.js";
import { Lines, plural, size } from "./text.js";

const NOT_SHOWN = "(This is not shown here: it is not text, or too long.)";

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
  const form = (content) => html`<${Form} save="Save rules" problem=${refused} onSave=${save} onCancel=${close}>
    ${!editing && html`<label>Name<input name="key" required defaultValue="/" placeholder="/travel.md" /></label>`}
    <label>Rules<textarea name="content" rows="12" defaultValue=${content}></textarea></label>
  <//>`;
  const mayEdit = told?.writable && editing === null;
  const button = (key, name, label) =>
    mayEdit && html`<button onClick=${() => setEditing(key)} aria-label=${label}>${name}</button>`;
  const file = ({ key, path, bytes, content, in_prompt: inPrompt }) => html`<article key=${key}>
    <h3>${path}</h3>
    <p class="quiet">${size(bytes)}${!inPrompt && ", read when a rule refers to it"}</p>
    ${editing === key ? form(content) : html`<${Lines} text=${content ?? NOT_SHOWN} />`}
    ${content !== null && button(key, "Change", `Change ${path}`)}
  </article>`;
  return html`<${Dialog} title=${`Policies of ${me.org_id}`} problem=${problem} onClose=${onClose}>
    <p>These rules hold in every answer, for everybody in ${me.org_id}. Nothing that anybody says or that is remembered
      can change them. ${told && !told.writable && "You may read them."}</p>
    ${told?.files.length === 0 && html`<p class="quiet">Your organization has set none.</p>`}
    ${told?.files.map(file)}
    ${editing === "" && form("")}${button("", "Add rules")}
  <//>`;
}

/** What the model is shown of a person at their next turn, with sizes and what was left out. */
export function Prompt({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/prompt");
  const block = ({ name, bytes, tokens, budget, left_out: leftOut, text }) => html`<article key=${name}>
    <h3>${name[0].toUpperCase() + name.slice(1)}</h3>
    <p class="quiet">About ${plural(tokens, "token")}, ${size(bytes)}${budget && `; up to ${size(budget)} of files fit`}</p>
    ${leftOut.length > 0 && html`<p class="problem">Left out: ${leftOut.join("; ")}</p>`}
    <div class="text prompt">${text}</div>
  </article>`;
  return html`<${Dialog} title="What the model sees of you next" problem=${problem} onClose=${onClose}>
    <p>At your next turn the system prompt holds these blocks, read afresh. An answer that surprises you has its reason
      here or in the conversation.</p>
    ${told && html`<p>Together about <b>${plural(told.blocks.reduce((sum, { tokens }) => sum + tokens, 0), "token")}</b>, beside what the
      agent's framework says of itself, its tools and the conversation.</p>`}
    ${told?.tools.length > 0 && html`<p>Its tools: ${told.tools.join(", ")}.</p>`}
    ${told?.blocks.map(block)}
  <//>`;
}
