// What anybody may have written, as text: lines, diffs, times, sizes. Nothing here, or anywhere, makes HTML of it.

import { html } from "./lib/preact.js";
import { locale, t } from "./texts.js";
import { Inline, differences } from "./words.js";

const STYLED_LINES = 400;
const MOST_CHANGED = 12;
const KINDS = [[/^#{1,6} /, "heading"], [/^\s*([-*+]|\d+[.)]) /, "bullet"]];
const DIFF_KINDS = { "+": "added", "-": "removed", "@": "place" };
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
// By whom something was written; each name stands after "by".
const AUTHORS = {
  person: t("author.person"),
  agent: t("author.agent"),
  client: t("author.client"),
  subagent: t("author.subagent"),
  consolidation: t("author.consolidation"),
  operator: t("author.operator"),
  seed: t("author.seed"),
  outside: t("author.outside"),
};

// Made once: making one takes longer than using it for a whole list.
const TIME = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const DAY = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });
const KILOBYTES = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

export const isId = (text) => UUID.test(text);
export const when = (iso) => (iso ? TIME.format(new Date(iso)) : "");
/** A day of the calendar, YYYY-MM-DD, for people. */
export const dayOf = (iso) => DAY.format(new Date(`${iso}T00:00:00Z`));
export const size = (bytes) =>
  bytes < 1000 ? t("common.bytes", { count: bytes }) : t("common.kilobytes", { count: KILOBYTES.format(bytes / 1000) });
const name = (of) => AUTHORS[of?.kind] ?? of?.kind ?? t("author.other");
/** By whom something was written. What another program calls itself is its own word. */
export const author = (of) => (of?.client ? t("author.named", { author: name(of), client: of.client }) : name(of));

const SPEAKERS = { user: t("chat.you"), assistant: t("chat.agent") };

/** A turn of a past conversation: who said it, and what. */
export const Turn = ({ of: { speaker, text } }) =>
  html`<p class="excerpt" dir="auto"><b>${Object.hasOwn(SPEAKERS, speaker) ? SPEAKERS[speaker] : speaker}</b> ${text}</p>`;

// What text is called that its writer wrote; a block without a type is a provider's own. Files and thoughts have text, too.
const WORDS = [undefined, "text", "input_text", "output_text", "refusal"];

/** The text in a message's content: text, or a list of blocks of which some have words. */
export function plain(content) {
  if (typeof content === "string") return content;
  const own = (Array.isArray(content) ? content : []).map((block) => (block?.type === "non_standard" ? block.value : block));
  const texts = own.map((block) => (WORDS.includes(block?.type) && !block?.thought ? block?.text ?? block?.refusal ?? block : ""));
  return texts.filter((text) => typeof text === "string").join("");
}

const styled = (lines, kind) =>
  lines.map((line, n) => html`<span class=${kind(line)}>${line}${n < lines.length - 1 ? "\n" : ""}</span>`);

/** Text as it is, headings and bullets set off. */
export function Lines({ text }) {
  const lines = text.split("\n");
  const kind = (line) => KINDS.find(([pattern]) => pattern.test(line))?.[1];
  return html`<div class="text" dir="auto">${lines.length > STYLED_LINES ? text : styled(lines, kind)}</div>`;
}

/** A diff of a file as it is; the sign beside each line says what its color does. Between its parts is a gap. */
export function Diff({ text }) {
  if (!text) return html`<p class="quiet">${t("common.no_text_changed")}</p>`;
  const line = (of, n) => html`<span key=${n} class=${DIFF_KINDS[of[0]]} dir="auto">${of[0] === "@" ? "⋯" : html`<b>${of[0]}</b>${of.slice(1)}`}${"\n"}</span>`;
  return html`<div class="diff">${text.trimEnd().split("\n").map(line)}</div>`;
}

/** What a diff changed, for who does not read diffs: what came and what went. `most` lines of each are shown. */
export function Changed({ path, diff, most = MOST_CHANGED }) {
  const { went, came } = differences(path, diff);
  const line = (kind, sign) => (text) => html`<li class=${kind} dir="auto"><b>${sign}</b> <${Inline} text=${text} /></li>`;
  const more = Math.max(went.length - most, 0) + Math.max(came.length - most, 0);
  return html`<ul class="came-and-went">${went.slice(0, most).map(line("removed", "−"))}
    ${came.slice(0, most).map(line("added", "+"))}</ul>
    ${more > 0 && html`<p class="quiet">${t("changes.more_lines", { count: more })}</p>`}
    ${!went.length && !came.length && html`<p class="quiet">${t("common.no_text_changed")}</p>`}`;
}

/** Why something did not work. */
export const Problem = ({ text }) => text && html`<p class="problem" role="alert">${text}</p>`;
