// What a conversation waits for: a question of the agent, an operator's approval, and changes of memory that one says yes to.
// All of it is what somebody else wrote: text, never links or HTML.

import { refusal } from "./client.js";
import { html, useState } from "./lib/preact.js";
import { useAct, useAsked } from "./parts.js";
import { Changed, Problem, plain } from "./text.js";
import { t } from "./texts.js";
import { titleOf } from "./words.js";

/** By the types of answers that langchain's questions allow. */
const LABELS = {
  approve: t("interrupts.approve"),
  accept: t("interrupts.approve"),
  edit: t("interrupts.edit"),
  reject: t("interrupts.reject"),
  respond: t("interrupts.respond"),
  response: t("interrupts.respond"),
  ignore: t("interrupts.ignore"),
};
// Types of answers that one types something for.
const TYPED = ["edit", "respond", "response"];

/** What waits in a conversation, with who answers it. */
export async function pendingIn(client, id, signal) {
  const { interrupts } = await client.json("GET", "/memory/interrupts", { query: { thread_id: id }, signal });
  return interrupts;
}

/** All that waits in this conversation, below what was said. */
export function Interrupts({ talk, memory, me, proposed }) {
  const waiting = (interrupt) => {
    const isTheirs = interrupt.answered_by === "person";
    if (!isTheirs && !me.operator) return html`<${Approval} key=${interrupt.id} ...${interrupt} />`;
    const title = t(isTheirs ? "interrupts.asks" : "interrupts.asks_operator");
    return html`<${Question} key=${interrupt.id} talk=${talk} title=${title} ...${interrupt} />`;
  };
  return html`${talk.interrupts.map(waiting)}${proposed.count > 0 && html`<${Proposed} key="proposed" talk=${talk} memory=${memory} ...${proposed} />`}`;
}

/** What an operator decides: to read. */
const Approval = ({ text, requests }) => html`<aside class="asked" aria-label=${t("interrupts.approval")}>
  <p>${t("conversation.waits")}</p>${text && html`<${Text} text=${text} />`}
  ${requests.map(({ name, args }) => html`<h4>${name}</h4><${Text} text=${args} />`)}</aside>`;

const Text = ({ text }) => html`<div class="text" dir="auto">${text}</div>`;

/** What the agent asks, and the form of the answer. */
function Question({ talk, title, id, kind, text, choices, requests }) {
  const [problem, act] = useAct();
  const answer = (value) => talk.answer({ [id]: value });
  const choice = (value) => html`<button type="button" onClick=${act(() => answer(value))}>${labelOf(value)}</button>`;
  const chosen = html`<p class="row" data-together>${choices.map(choice)}</p>`;
  const typed = html`<${Typed} act=${act} onAnswer=${answer} />`;
  const form = choices.length ? chosen : typed;
  return html`<aside class="asked" aria-label=${title}><h3>${title}</h3>
    ${text && html`<${Text} text=${text} />`}
    ${requests.length ? html`<${Requests} kind=${kind} requests=${requests} act=${act} onAnswer=${answer} />` : form}
    <${Problem} text=${problem} /></aside>`;
}

function labelOf(value) {
  if (typeof value === "boolean") return t(value ? "interrupts.yes" : "interrupts.no");
  return String(value);
}

/** An answer in words, or in JSON. */
function Typed({ act, onAnswer }) {
  const [text, setText] = useState("");
  const [isJson, setJson] = useState(false);
  const send = act(async () => onAnswer(isJson ? parsed(text) : text));
  return html`<form onSubmit=${send}>
    <label>${t("interrupts.your_answer")}
      <textarea rows="2" dir="auto" value=${text} onInput=${({ target }) => setText(target.value)}></textarea></label>
    <p class="row"><button class="main" disabled=${!text.trim()}>${t("interrupts.answer")}</button>
      <label class="switch"><input type="checkbox" checked=${isJson} onChange=${() => setJson(!isJson)} />${t("interrupts.as_json")}</label></p>
  </form>`;
}

/** One decision for each action; of a single one it is sent at once. */
function Requests({ kind, requests, act, onAnswer }) {
  const [answers, setAnswers] = useState({});
  const send = (all) => {
    const list = requests.map((_, n) => all[n]);
    if (kind === "decisions") return onAnswer({ decisions: list });
    return onAnswer(kind === "response" ? list[0] : list);
  };
  const decide = (n) => async (answer) => {
    const all = { ...answers, [n]: answer };
    setAnswers(all);
    if (requests.length === 1) await send(all);
  };
  const isWhole = requests.every((_, n) => answers[n]);
  const one = (request, n) => html`<${Request} key=${n} request=${request} isDecision=${kind === "decisions"}
    chosen=${requests.length > 1 ? answers[n]?.type : undefined} act=${act} onDecide=${decide(n)} />`;
  return html`${requests.map(one)}${requests.length > 1 && html`<p class="row">
    <button class="main" disabled=${!isWhole} onClick=${act(() => send(answers))}>${t("interrupts.send")}</button></p>`}`;
}

/** An action that waits for a decision: what it would be done with, and a button for each answer that is allowed. */
function Request({ request, isDecision, chosen, act, onDecide }) {
  const { name, args, description, may } = request;
  const [typing, setTyping] = useState(null); // { type, text }
  const pick = (type) => act(async () => {
    if (!TYPED.includes(type)) return onDecide(isDecision ? { type } : { type, args: null });
    setTyping({ type, text: type === "edit" ? args : "" });
  });
  const send = act(async () => onDecide(typedAnswer(typing, name, isDecision)));
  const button = (type) => html`<button type="button" aria-pressed=${chosen === undefined ? undefined : chosen === type}
    aria-label=${`${LABELS[type]}: ${name}`} onClick=${pick(type)}>${LABELS[type]}</button>`;
  return html`<section aria-label=${name}><h4>${name}</h4>
    ${description && html`<${Text} text=${description} />`}<${Text} text=${args} />
    ${!may.length && html`<p class="quiet">${t("interrupts.none_allowed")}</p>`}
    <p class="row" data-together>${may.map(button)}</p>
    ${typing && html`<form onSubmit=${send}>
      <label>${typing.type === "edit" ? t("interrupts.arguments") : t("interrupts.your_answer")}
        <textarea rows="3" dir="auto" value=${typing.text} onInput=${({ target }) => setTyping({ ...typing, text: target.value })}></textarea></label>
      <p class="row"><button class="main" disabled=${!typing.text.trim()}>${t("interrupts.answer")}</button>
        <button type="button" onClick=${() => setTyping(null)}>${t("common.cancel")}</button></p></form>`}</section>`;
}

/** The answer that was typed, in the shape that langchain's question takes. */
function typedAnswer({ type, text }, name, isDecision) {
  if (type !== "edit") return isDecision ? { type, message: text } : { type, args: text };
  const args = parsed(text);
  if (args === null || typeof args !== "object" || Array.isArray(args)) throw refusal(422, t("interrupts.no_object"));
  return isDecision ? { type, edited_action: { name, args } } : { type, args: { action: name, args } };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw refusal(422, t("interrupts.no_json"));
  }
}

/** Whether a tool says of its write that it waits for this person's yes. */
export const isProposal = ({ type, content }) => type === "tool" && JSON.stringify(content ?? "").includes("waits among their proposed changes");

/** What the agent would have written in this conversation: { told, problem, count of the tools that say so, outcomes }. */
export function useProposed(talk, memory) {
  const messages = [...talk.messages.values()];
  const count = messages.filter(isProposal).length;
  const ask = async (signal) => count > 0 && { ...(await client.json("GET", "/memory/proposals", { signal })), count };
  const { client } = talk;
  const { told, problem } = useAsked(ask, [count > 0 && memory.version, count, talk.id]);
  const isCurrent = told && told.count === count;
  return { told: told || null, problem, count, outcomes: isCurrent ? outcomesOf(messages, ofThread(told, talk.id)) : new Map() };
}

/** A thread's proposals, oldest first, as { at, files }: by path "waits", "accepted" or "declined". */
function ofThread({ proposals, decided }, id) {
  const waiting = proposals.filter(({ kind }) => kind === "agent");
  const all = new Map(waiting.map((each) => [each.id, { ...each, files: {} }]));
  for (const each of decided) all.set(each.id, { ...each, files: { ...each.files } });
  for (const each of waiting) for (const path of Object.keys(each.files)) all.get(each.id).files[path] = "waits";
  const mine = [...all.values()].filter(({ threads }) => threads.includes(id));
  return mine.sort((a, b) => (a.at < b.at ? -1 : 1));
}

/**
 * What became of each proposal by the id of its tool call. The answers to one message are one proposal: the last of them that is
 * about a file is the last proposal with that file, and so on. What the server does not know any more is over.
 */
function outcomesOf(messages, proposals) {
  const outcomes = new Map();
  const left = new Map(); // by path: what became of it in the proposals that no answer was found for yet
  for (const { files } of proposals) for (const [path, what] of Object.entries(files)) left.set(path, [...(left.get(path) ?? []), what]);
  let ofTurn = new Map(); // by path
  for (const message of messages.toReversed()) {
    if (message.type === "human") ofTurn = new Map();
    if (!isProposal(message)) continue;
    const path = pathOf(message);
    if (!ofTurn.has(path)) ofTurn.set(path, left.get(path)?.pop() ?? "over");
    outcomes.set(message.tool_call_id, ofTurn.get(path));
  }
  return outcomes;
}

/** The file that a tool says of that its change waits. */
const pathOf = ({ content }) => /(\/memories\/.+?) was not changed/.exec(plain(content))?.[1];

/** What the agent would write of this conversation, to accept or decline here. */
function Proposed({ talk, memory, told, problem }) {
  const [refused, act] = useAct();
  const mine = (told?.proposals ?? []).filter(({ kind, threads }) => kind === "agent" && threads.includes(talk.id));
  const decide = ({ id, files }, accept) => act(async () => {
    const body = { accept, files: Object.keys(files) }; // what one sees, and nothing that came meanwhile
    const { refused: left } = await memory.change("POST", `/memory/proposals/${id}`, { body });
    const why = Object.values(left).join(" ");
    if (why) throw refusal(409, why);
  });
  const file = ([path, diff]) => html`<h4 dir="auto">${titleOf(memory, path)}</h4><div dir="auto"><${Changed} path=${path} diff=${diff} /></div>`;
  const proposal = (of) => html`<aside key=${of.id} class="asked" aria-label=${t("interrupts.proposed")} data-together>
    <h3>${t("interrupts.proposed")}</h3>${Object.entries(of.files).map(file)}
    <p class="row"><button class="main" onClick=${decide(of, true)}>${t("proposals.accept")}</button>
      <button onClick=${decide(of, false)}>${t("proposals.decline")}</button></p></aside>`;
  return html`${mine.map(proposal)}<${Problem} text=${refused || problem} />`;
}
