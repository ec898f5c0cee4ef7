// How what the server keeps is said to people: names for files, a profile's fields, why something was left out.

import { html } from "./lib/preact.js";
import { t } from "./texts.js";

const MOST_INLINE_CHARS = 2_000;
// Emphasis and code in a line, the only Markdown that is shown as what it means there. Stars that stand alone are left as they are.
const INLINE = /(\*\*|__)(?=\S)(.+?\S|\S)\1(?!\w)|(?<![^\s(])([*_])(?=[^\s*_])([^*_]*[^\s*_])\3(?=[\s.,;:!?)]|$)|`([^`]+)`/g;

/** A line of a file for reading: emphasis and code as what they mean, everything else as it stands. */
export function Inline({ text }) {
  if (text.length > MOST_INLINE_CHARS) return text;
  const shown = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [all, , strong, , em, code] = match;
    shown.push(text.slice(end, match.index));
    if (strong !== undefined) shown.push(html`<strong>${strong}</strong>`);
    else if (em !== undefined) shown.push(html`<em>${em}</em>`);
    else shown.push(html`<code>${code}</code>`);
    end = match.index + all.length;
  }
  return html`${shown}${text.slice(end)}`;
}

/** The name of a file's field for people. */
const fieldName = (name) => (name ? name[0].toUpperCase() + name.slice(1).replaceAll("_", " ") : name);

// Of the fields that every profile has. A fork's own are called what they are called in its code.
const PROFILE_NAMES = {
  name: t("profile.name"),
  role: t("profile.role"),
  language: t("profile.language"),
  timezone: t("profile.timezone"),
  units: t("profile.units"),
};
// What the server's schema says of them. Another description, a fork's, is shown as it is.
const PROFILE_DESCRIPTIONS = {
  "What to call the person.": t("profile.about_name"),
  "What they do, e.g. 'backend engineer at a bank'.": t("profile.about_role"),
  "The language they want answers in, e.g. 'German'.": t("profile.about_language"),
  "IANA name, e.g. 'Europe/Berlin'.": t("profile.about_timezone"),
  "Units of measurement they prefer, e.g. 'metric'.": t("profile.about_units"),
};
const PROFILE = "/memories/profile.json";

/** The name of a profile's field for people. */
export const profileField = (name) => (Object.hasOwn(PROFILE_NAMES, name) ? PROFILE_NAMES[name] : fieldName(name));

/** What a profile's field is for, in a sentence for people. */
export const profileDescription = (text) => (Object.hasOwn(PROFILE_DESCRIPTIONS, text ?? "") ? PROFILE_DESCRIPTIONS[text] : text);

export function fieldValue(value) {
  if (Array.isArray(value)) return value.map(fieldValue).join(", ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** What a line of a JSON file says, a sentence for each field: "Name: Anna". */
function fieldsOf(path, line) {
  const text = line.trim().replace(/,$/, "");
  if (/^[{}[\]]*$/.test(text)) return [];
  const value = parsed(text) ?? parsed(`{${text}}`);
  if (value === undefined) return [text];
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [fieldValue(value)];
  const nameOf = path === PROFILE ? profileField : fieldName;
  return Object.entries(value).map(([name, of]) => `${nameOf(name)}: ${fieldValue(of)}`);
}

const MARKER = /^([-*+]|\d{1,9}[.)])\s+/;
const SOURCE = / ?\((\d{4}-\d\d-\d\d, )?thread [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$/;
// The day until which a line holds, at its end and after its source.
const END = /\s+\(until (\d{4}-\d{2}-\d{2})\)$/;
const COMMENT = /^<!--.*-->$/;
const FENCE = /^(`{3,}|~{3,})[^`]*$/;
const RULE = /^\|?[\s:|-]*-{3,}[\s:|-]*$/; // below a table's head, or between parts

/** A line without its list marker, and without the source that consolidation notes at its end, or before the day until which it holds. */
export function said(line) {
  const text = line.replace(MARKER, "");
  const end = text.match(END)?.[0] ?? "";
  return text.slice(0, text.length - end.length).replace(SOURCE, "") + (end && ` ${end.trim()}`);
}

/** A text with the day until which it holds; without one where there is none. */
export const withEnd = (text, until) => (until ? `${text} (until ${until})` : text);

/** A line without the day until which it holds. */
export const withoutEnd = (line) => line.trimEnd().replace(END, "");

/** The marker in front of a line's text. */
export const markerOf = (line) => line.match(/^\s*(([-*+]|\d{1,9}[.)])\s+)?/)[0];

/** What a line of a file says to people, in sentences; none where it only gives a file its form. */
function sentences(path, line) {
  if (path.endsWith(".json")) return fieldsOf(path, line);
  const text = said(line.trim());
  if (!text || COMMENT.test(text) || FENCE.test(text) || RULE.test(text)) return [];
  if (text.startsWith("#")) return [text.replace(/^#+\s*/, "")].filter(Boolean);
  return [text.startsWith("|") && text.endsWith("|") ? cells(text) : text];
}

const cells = (row) => row.slice(1, -1).split("|").map((cell) => cell.trim()).filter(Boolean).join(", ");

/** What a diff took out and put in, as people read it: { went, came }. What is in both has only moved. */
export function differences(path, diff) {
  const [went, came] = ["-", "+"].map((sign) => {
    const lines = (diff ?? "").split("\n").filter((line) => line[0] === sign);
    return lines.flatMap((line) => sentences(path, line.slice(1)));
  });
  if (!path.endsWith(".json")) return { went, came };
  return { went: went.filter((text) => !came.includes(text)), came: came.filter((text) => !went.includes(text)) };
}

/** A line of a proposal as people read it; its own text where it only gives a file its form. */
export const lineFor = (path, text) => sentences(path, text).join("; ") || text.trim();

/** The title under which a file's lines are shown, also of one that is not there yet. */
export function titleOf(memory, path) {
  const group = memory.groups?.find((each) => each.path === path);
  if (group?.kind === "profile" || path === PROFILE) return t("profile.title");
  const name = path.split("/").pop().replace(/\.[a-z]+$/, "").replaceAll(/[-_]/g, " ");
  return group?.title ?? (name ? name[0].toUpperCase() + name.slice(1) : path);
}

// Why something was left out, or did not happen, by what the server calls it. What it says to the model is not for people.
const REASONS = {
  taken_back: (what) => t("reasons.taken_back", { what }),
  not_given: (what) => t("reasons.not_given", { what }),
  not_allowed: (what) => t("reasons.not_allowed", { what }),
  fact_deleted: () => t("reasons.fact_deleted"),
  would_lose: (what) => t("reasons.would_lose", { what }),
  not_plain: () => t("reasons.not_plain"),
  unconfirmed: () => t("reasons.unconfirmed"),
  own_skill: () => t("reasons.own_skill"),
  overtaken: () => t("reasons.overtaken"),
  conversation_deleted: () => t("reasons.conversation_deleted"),
  paused: () => t("reasons.paused"),
  too_long: () => t("reasons.too_long"),
  no_answer: () => t("reasons.no_answer"),
  failed: () => t("reasons.failed"),
  interrupted: () => t("reasons.interrupted"),
  nothing_new: () => t("reasons.nothing_new"),
  nothing_remembered: () => t("reasons.nothing_remembered"),
  undecided: () => t("reasons.undecided"),
  another_at_work: () => t("reasons.another_at_work"),
  forgotten: () => t("reasons.forgotten"),
  credential: () => t("reasons.credential"),
  too_large: () => t("reasons.too_large"),
  memory_full: () => t("reasons.memory_full"),
  bad_path: () => t("reasons.bad_path"),
  bad_text: () => t("reasons.bad_text"),
  hidden_text: () => t("reasons.hidden_text"),
  offer_over: () => t("reasons.offer_over"),
  names_conversation: () => t("reasons.names_conversation"),
  offer_too_long: () => t("reasons.offer_too_long"),
  too_many_offers: () => t("reasons.too_many_offers"),
};

/** A sentence for each of these reasons, { kind, texts }. */
export function reasons(notes) {
  const sentence = ({ kind, texts = [] }) => {
    const what = texts.map((text) => said(text.trim())).join("; ");
    return Object.hasOwn(REASONS, kind) ? REASONS[kind](what) : t("reasons.refused");
  };
  return [...new Set((notes ?? []).map(sentence))].join("\n");
}

/** The sentence for one kind; undefined for one that this page does not know. */
export const reasonOf = (kind) => (Object.hasOwn(REASONS, kind ?? "") ? REASONS[kind]("") : undefined);

// Why a line goes: what consolidation says where the model gave no words of its own.
const GIVEN_UP = { outdated: t("proposals.outdated"), contradicted: t("proposals.contradicted"), over: t("proposals.over"), not_again: t("proposals.not_again"), reworded: t("proposals.reworded") };
export const givenUp = (reason) => GIVEN_UP[reason] ?? reason;
