// The page's own texts, in the language that the server chose. What people, models or the server wrote is none of them.

const answer = await fetch(new URL("texts", import.meta.url), { credentials: "omit" });
if (!answer.ok) throw new Error(`The page's texts are not there: ${answer.status}.`);
const { language, texts } = await answer.json();
document.documentElement.lang = language;

const base = (tag) => tag.split("-")[0];
/** How numbers, times and plurals are written: as the browser's owner likes it, in the language of the texts. */
export const locale = navigator.languages.find((tag) => base(tag) === base(language)) ?? language;

const PLACEHOLDER = /\{(\w+)\}/;
const NUMBERS = new Intl.NumberFormat(locale);
const PLURALS = new Intl.PluralRules(locale);

/** The text of a key, with `values` in place of its `{names}`. Of plural forms `values.count` chooses one. */
export const t = (key, values = {}) => filled(key, values).join("");

/** The same as a list, for values that are elements. */
export function filled(key, values = {}) {
  const text = form(key, values);
  // Split at placeholders, every second part is the name of one.
  return text.split(PLACEHOLDER).map((part, n) => (n % 2 ? valueOf(part, values, key) : part));
}

function form(key, { count }) {
  const text = texts[key];
  if (text === undefined) throw new Error(`There is no text ${key}.`);
  return typeof text === "string" ? text : (text[PLURALS.select(count)] ?? text.other);
}

function valueOf(name, values, key) {
  if (values[name] === undefined) throw new Error(`The text ${key} needs ${name}.`);
  return typeof values[name] === "number" ? NUMBERS.format(values[name]) : values[name];
}
