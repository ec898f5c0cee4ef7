// The conversation as one sees it: what was said, what the agent did, and the box to write in.

import { Attached } from "./attached.js";
import { attachedTo, madeBy, ownWords } from "./attachments.js";
import { Composer } from "./composer.js";
import { Interrupts, isProposal, useProposed } from "./interrupts.js";
import { html, useCallback, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Markdown } from "./markdown.js";
import { useAct } from "./parts.js";
import { Lines, Problem, plain } from "./text.js";
import { t } from "./texts.js";
import { Inline, differences, titleOf } from "./words.js";

const MOST_TOLD = 3;
const TRY = [t("chat.try_remember"), t("chat.try_know"), t("chat.try_policies")];

export function Chat({ talk, memory, me }) {
  const log = useRef();
  const box = useRef();
  const isAtEnd = useRef(true);
  const last = useRef(0); // how far one had scrolled
  const stayAtEnd = useCallback(() => {
    if (isAtEnd.current) log.current.scrollTop = log.current.scrollHeight;
  }, []);
  useLayoutEffect(stayAtEnd);
  useLayoutEffect(() => {
    if (document.activeElement === document.body) box.current.focus(); // what had the focus is gone, with the sign-in
  }, []);
  const onScroll = ({ target: at }) => {
    const isNear = at.scrollHeight - at.scrollTop - at.clientHeight < 60;
    const hasGrown = isAtEnd.current && at.scrollTop >= last.current; // nobody has scrolled up: there is more than before
    isAtEnd.current = isNear || hasGrown;
    last.current = at.scrollTop;
  };
  const pick = (words) => (talk.set({ draft: words }), box.current.focus());
  const messages = [...talk.messages.values()];
  const proposed = useProposed(talk, memory);
  const results = new Map(messages.filter(({ type }) => type === "tool").map((of) => [of.tool_call_id, of]));
  const isThinking = talk.isGoing && !(messages.at(-1)?.type === "ai" && plain(messages.at(-1).content));
  const lastSaid = messages.findLast(({ type }) => type === "human");
  const mayEdit = (message) => message === lastSaid && message.id !== "sent" && !talk.isGoing && !talk.isHistory;
  const goToEnd = () => (isAtEnd.current = true);
  const edit = (message) => mayEdit(message) && ((words) => (goToEnd(), talk.replace(message.id, words), box.current.focus()));
  return html`<section class="chat" aria-label=${t("chat.label")} aria-busy=${talk.isGoing}>
    <div class="log" tabindex="0" role="group" aria-label=${t("chat.said")} ref=${log} onScroll=${onScroll}>
      ${talk.isLoading && html`<p class="quiet" role="status">${t("chat.opening")}</p>`}
      ${!messages.length && !talk.isLoading && html`<${Start} pick=${pick} />`}
      ${messages.map((message) => html`<${Said} key=${message.id} message=${message} results=${results} outcomes=${proposed.outcomes} onMade=${stayAtEnd} onEdit=${edit(message)} />`)}
      ${isThinking && html`<p class="thinking"><span /><span /><span /><b class="unseen">${t("chat.working")}</b></p>`}
      ${talk.note && html`<div class="note"><p>${talk.note}</p>
        ${talk.hasFailed && html`<button onClick=${talk.retry}>${t("chat.retry")}</button>`}</div>`}
      <${Interrupts} talk=${talk} memory=${memory} me=${me} proposed=${proposed} />
      <${Remembered} talk=${talk} memory=${memory} />
    </div>
    ${talk.isHistory
      ? html`<p class="quiet history">${t("chat.history")}</p>`
      : html`<${Composer} talk=${talk} box=${box} pictures=${me.pictures} onSend=${goToEnd} />`}
    ${talk.agents.length > 1 && html`<${Agent} talk=${talk} />`}
    <${Temporary} talk=${talk} hours=${me.temporary_hours} />
  </section>`;
}

const Start = ({ pick }) => html`<div class="start">
  <h2>${t("chat.start")}</h2>
  <p>${t("chat.start_about")}</p>
  <p class="picks">${TRY.map((words) => html`<button onClick=${() => pick(words)}>${words}</button>`)}</p>
</div>`;

function Said({ message, results, outcomes, onMade, onEdit }) {
  const { type, content, tool_calls: calls = [], response_metadata: about } = message;
  if (type === "human") return html`<${Own} message=${message} onEdit=${onEdit} />`;
  if (type !== "ai") return null;
  const text = plain(content);
  const lines = text.trim() && html`<${Markdown} text=${text} onMade=${onMade} />`;
  const call = (of) => html`<${Call} key=${of.id} call=${of} result=${results.get(of.id)} outcome=${outcomes.get(of.id)} />`;
  const why = about?.stopped === true ? t("conversation.stopped") : about?.cut;
  const cut = why && html`<p class="quiet">${String(why)}</p>`;
  const made = madeBy(message);
  const pictures = made.length > 0 && html`<${Attached} of=${made} />`;
  return html`<article><h3 class="unseen">${t("chat.agent")}</h3>${lines}${pictures}${cut}${calls.map(call)}</article>`;
}

/** What one said oneself. `onEdit(words)`, of the last message, has it answered again with other words. */
function Own({ message, onEdit }) {
  const [words, setWords] = useState(null); // that it is changed to, while it is
  const field = useRef();
  const isEditing = onEdit && words !== null;
  useLayoutEffect(() => isEditing && field.current.focus(), [isEditing]);
  const text = plain(ownWords(message));
  const attached = attachedTo(message);
  const files = attached.length > 0 && html`<${Attached} of=${attached} />`;
  const save = (event) => {
    event.preventDefault();
    if (!words.trim() && !attached.length) return;
    setWords(null);
    onEdit(words);
  };
  const cancel = () => setWords(null);
  const onKeyDown = ({ key, isComposing }) => key === "Escape" && !isComposing && cancel();
  const shown = () => html`${text && html`<${Lines} text=${text} />`}
    ${onEdit && html`<button class="small edit" aria-label=${t("chat.edit_label")} onClick=${() => setWords(text)}>${t("chat.edit")}</button>`}`;
  const asked = () => html`<form class="editor" onSubmit=${save}>
    <label><span class="unseen">${t("chat.edit_words")}</span>
      <textarea ref=${field} dir="auto" rows="3" value=${words} onInput=${({ target }) => setWords(target.value)} onKeyDown=${onKeyDown}></textarea></label>
    <p class="quiet">${t("chat.edit_about")}</p>
    <p class="row"><button class="main">${t("chat.edit_send")}</button><button type="button" onClick=${cancel}>${t("chat.edit_cancel")}</button></p>
  </form>`;
  return html`<article class=${isEditing ? "mine editing" : "mine"}><h3 class="unseen">${t("chat.you")}</h3>${files}${isEditing ? asked() : shown()}</article>`;
}

/** What was written down in the last answer and not looked at yet, in short, where one's eyes are. */
function Remembered({ talk, memory }) {
  const [problem, act] = useAct();
  const [hidden, hide] = useState([]);
  const before = useRef([]); // what had been pointed out when this answer began
  const isGoing = useRef(false);
  if (talk.isGoing && !isGoing.current) before.current = memory.changes.map(({ key }) => key);
  isGoing.current = talk.isGoing;
  const isShown = ({ author, key }) =>
    author.kind !== "person" && author.thread_id === talk.id && ![...hidden, ...before.current].includes(key);
  const change = talk.id && !talk.isGoing && memory.changes.find(isShown);
  if (!change) return html`<${Problem} text=${problem} />`;
  const what = change.deleted ? [t("chat.deleted", { path: titleOf(memory, change.path) })] : differences(change.path, change.diff).came.slice(0, MOST_TOLD);
  return html`<aside class="remembered" aria-label=${t("chat.remembered")}><p>
      <b>${t(what.length ? "chat.remembered" : "chat.changed")}</b>${what.map((line) => html`<span dir="auto"><${Inline} text=${line} /></span>`)}</p>
    <p class="row">${change.changes && html`<button class="small" onClick=${act(() => memory.undo(change))}>${t("chat.take_back")}</button>`}
      <button class="small" onClick=${() => hide([...hidden, change.key])}>${t("chat.ok")}</button></p><${Problem} text=${problem} /></aside>`;
}

// What people call what the agent does with its tools; every other tool has its own name.
const TOOLS = {
  append_memory: t("chat.tool_remember"),
  save_profile: t("chat.tool_profile"),
  search_memories: t("chat.tool_search_memory"),
  search_past_conversations: t("chat.tool_search"),
  read_conversation: t("chat.tool_read_conversation"),
  ls: t("chat.tool_list"),
  glob: t("chat.tool_list"),
  grep: t("chat.tool_search_files"),
  read_file: t("chat.tool_read"),
  write_file: t("chat.tool_write"),
  edit_file: t("chat.tool_write"),
  delete: t("chat.tool_delete"),
  write_todos: t("chat.tool_plan"),
  task: t("chat.tool_task"),
};
const toolName = (name) => (Object.hasOwn(TOOLS, name) ? TOOLS[name] : String(name));

// What became of a write that waits for its person.
const OUTCOMES = {
  waits: (tool) => t("chat.call_waits", { tool }),
  accepted: (tool) => t("chat.call_accepted", { tool }),
  declined: (tool) => t("chat.call_declined", { tool }),
  over: (tool) => t("chat.call_over", { tool }),
};

/** A tool call and how it ended. A write that waits is an error for deepagents' tools, which know only done or not. */
function ended(tool, result, outcome) {
  if (isProposal(result)) return OUTCOMES[outcome]?.(tool) ?? tool; // until the server has said what became of it
  return result.status === "error" ? t("chat.call_failed", { tool }) : tool;
}

const Call = ({ call, result, outcome }) => html`<details class="call">
  <summary>${result ? ended(toolName(call.name), result, outcome) : toolName(call.name)}</summary>
  <div class="text" dir="auto">${String(call.name)} ${JSON.stringify(call.args, null, 1)}</div>
  ${result && html`<div class="text" dir="auto">${plain(result.content)}</div>`}
</details>`;

/** Whom the conversation is with, which is chosen before its first message. */
const Agent = ({ talk }) => html`<label class="switch">${t("chat.with_agent")}
  <select aria-label=${t("chat.with_agent")} value=${talk.agent} disabled=${talk.id || talk.messages.size > 0} onChange=${({ target }) => talk.set({ agent: target.value })}>
    ${talk.agents.map((name) => html`<option value=${name}>${name}</option>`)}
  </select></label>`;

/** Whether the conversation is temporary, which is decided before its first message. */
function Temporary({ talk, hours }) {
  const about = t("chat.temporary_about", { count: hours });
  const isTemporary = talk.metadata.temporary === true;
  const choose = () => talk.set({ metadata: isTemporary ? {} : { temporary: true } });
  if (talk.id || talk.messages.size) return isTemporary && html`<p class="note">${about}</p>`;
  return html`<label class="switch">
    <input type="checkbox" checked=${isTemporary} onChange=${choose} />${t("chat.temporary")}</label>`;
}
