// What anybody may have written, as text: lines, diffs, times, sizes. Nothing here, or anywhere, makes HTML of it.

import { html } from "./lib/preact.js";
import { locale, t } from "./texts.js";

const STYLED_LINES = 400;
const MOST_CHANGED = 12;
const KINDS = [[/^#{1,6} /, "heading"], [/^\s*([-*+]|\d+[.)]) /, "bullet"]];
const DIFF_KINDS = { "+": "added", "-": "removed", "@": "place" };
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
// By whom something was written; each name stands after "by".
const AUTHORS = {
  person: t("author.person"),
  agent: t("author.agent"),
  subagent: t("author.subagent"),
  consolidation: t("author.consolidation"),
  operator: t("author.operator"),
  seed: t("author.seed"),
  outside: t("author.outside"),
};

// Made once: making one takes longer than using it for a whole list.
const TIME = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
const KILOBYTES = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

export const isId = (text) => UUID.test(text);
export const when = (iso) => (iso ? TIME.format(new Date(iso)) : "");
export const size = (bytes) =>
  bytes < 1000 ? t("common.bytes", { count: bytes }) : t("common.kilobytes", { count: KILOBYTES.format(bytes / 1000) });
export const author = (of) => AUTHORS[of?.kind] ?? of?.kind ?? t("author.other");

/** The text in a message's content: text, or a list of blocks of which some have text. */
export function plain(content) {
  if (typeof content === "string") return content;
  const texts = (Array.isArray(content) ? content : []).map((block) => block?.text ?? block?.refusal ?? block);
  return texts.filter((text) => typeof text === "string").join("");
}

const styled = (lines, kind) =>
  lines.map((line, n) => html`<span class=${kind(line)}>${line}${n < lines.length - 1 ? "\n" : ""}</span>`);

/** Text as it is, headings and bullets set off. */
export function Lines({ text }) {
  const lines = text.split("\n");
  const kind = (line) => KINDS.find(([pattern]) => pattern.test(line))?.[1];
  return html`<div class="text">${lines.length > STYLED_LINES ? text : styled(lines, kind)}</div>`;
}

/** A unified diff; the sign at the start of each line says what its color does. */
export function Diff({ text }) {
  if (!text) return html`<p class="quiet">${t("common.no_text_changed")}</p>`;
  return html`<div class="diff">${styled(text.trimEnd().split("\n"), (line) => DIFF_KINDS[line[0]])}</div>`;
}

const signed = (diff, sign) => (diff ?? "").split("\n").filter((line) => line[0] === sign).map((line) => line.slice(1).trim());
const MARKER = /^([-*+]|\d{1,9}[.)])\s+/;
const SOURCE = / ?\((\d{4}-\d\d-\d\d, )?thread [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$/;

/** A line without its list marker, and without the source that consolidation notes at its end, as facts have it. */
export const said = (line) => line.replace(MARKER, "").replace(SOURCE, "");

/** The lines that a diff adds, without their markers and sources. */
export const added = (diff) => signed(diff, "+").map(said).filter(Boolean);

/** What a diff changed, for who does not read diffs: what came and what went. */
export function Changed({ diff }) {
  const went = signed(diff, "-").map(said).filter(Boolean);
  const line = (kind, sign) => (text) => html`<li class=${kind}><b>${sign}</b> ${text}</li>`;
  return html`<ul class="came-and-went">${went.slice(0, MOST_CHANGED).map(line("removed", "−"))}
    ${added(diff).slice(0, MOST_CHANGED).map(line("added", "+"))}</ul>`;
}

/** Why something did not work. */
export const Problem = ({ text }) => text && html`<p class="problem" role="alert">${text}</p>`;
