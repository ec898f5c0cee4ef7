// Markdown as elements from a list: what is not on it is shown as the text it is. Nothing is made of HTML, and nothing is loaded.

import { definitions, linksOf, read, split } from "./blocks.js";
import { html, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./lib/preact.js";
import { hasTime, later } from "./slices.js";
import { Lines } from "./text.js";
import { t } from "./texts.js";

const MOST_DEEP = 32;

/** Text that a model wrote. `onMade()` is called when a part of it has become elements, which may be higher than its text. */
export function Markdown({ text, onMade }) {
  const { blocks, rest } = useMemo(() => split(text), [text]);
  const defined = useMemo(() => definitions(text), [text]);
  const links = useMemo(() => linksOf(defined), [defined]);
  const block = (source, n) => html`<${Block} key=${n} ...${source} links=${links} onMade=${onMade} />`;
  return html`<div class="markdown">${blocks.map(block)}${rest && html`<${Lines} text=${rest} />`}</div>`;
}

/** One block. It is read again only where it has changed, and shown as it was, or as its text, until there is time for that. */
function Block({ text, depth, start, links, onMade }) {
  const [, changed] = useReducer((n) => n + 1, 0);
  const made = useRef({}); // { source, links, shown }
  const source = `${depth} ${start} ${text}`;
  const isMade = () => made.current.source === source && made.current.links === links;
  const make = () => (made.current = { source, links, shown: shown({ text, depth, start }, links) });
  if (!isMade() && hasTime()) make();
  useLayoutEffect(() => {
    if (!isMade()) return later(() => (make(), changed()));
    onMade?.();
  });
  return made.current.shown ?? html`<${Lines} text=${text} />`;
}

function shown(block, links) {
  const tokens = read(block, links);
  let made = tokens ? elements(tokens) : html`<${Lines} text=${block.text.trimEnd()} />`;
  // What goes on inside of lists, whose items the blocks before it have.
  for (let depth = block.depth; depth > 0; depth--) made = html`<ul><li class="goes-on" dir="auto">${made}</li></ul>`;
  return made;
}

/**
 * The elements of these tokens, which are in an element of this name, so deep within others. Each keeps its place, whatever it
 * becomes while the answer comes in: without that the library can put what is new in front of what was there.
 */
const elements = (tokens = [], within = "", deep = 0) =>
  tokens.map((token, n) => html`<${Place} key=${n}>${element(token, within, deep + 1)}<//>`);

const Place = ({ children }) => children;

function element(token, within, deep) {
  const make = Object.hasOwn(MADE, token.type) && deep <= MOST_DEEP ? MADE[token.type] : () => undefined;
  return make(token, (tokens, name = "") => elements(tokens, name, deep), within) ?? token.raw;
}

// By the type of a token: the element for it, or undefined for its text. `inner` makes the elements of the tokens in it. Each
// element has the direction of its first words; an item has that of its paragraphs, which say nothing themselves: what says it
// for itself does not count for what is around it.
const MADE = {
  space: () => "",
  hr: () => html`<hr />`,
  br: () => html`<br />`,
  escape: ({ text }) => text,
  text: ({ tokens, text }, inner) => (tokens ? inner(tokens) : text),
  paragraph: ({ tokens }, inner, within) => html`<p dir=${within === "li" ? undefined : "auto"}>${inner(tokens)}</p>`,
  heading: ({ depth, tokens }, inner) => html`<p class="heading" dir="auto" role="heading" aria-level=${Math.min(depth + 3, 6)}>${inner(tokens)}</p>`,
  blockquote: ({ tokens }, inner) => html`<blockquote>${inner(tokens)}</blockquote>`,
  strong: ({ tokens }, inner) => html`<strong>${inner(tokens)}</strong>`,
  em: ({ tokens }, inner) => html`<em>${inner(tokens)}</em>`,
  del: ({ tokens }, inner) => html`<del>${inner(tokens)}</del>`,
  codespan: ({ text }) => html`<code>${text}</code>`,
  code: ({ text }) => html`<${Code} text=${text} />`,
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  list: ({ ordered, start, items }, inner) => {
    const entries = items.map(({ tokens }) => html`<li dir="auto">${inner(tokens, "li")}</li>`);
    return ordered ? html`<ol start=${start}>${entries}</ol>` : html`<ul>${entries}</ul>`;
  },
  table: ({ header, rows }, inner) => {
    const row = (cells, tag) => html`<tr>${cells.map(({ tokens }) => html`<${tag} dir="auto">${inner(tokens)}<//>`)}</tr>`;
    return html`<div class="table" tabindex="0" role="group" aria-label=${t("markdown.table")}><table>
      <thead>${row(header, "th")}</thead><tbody>${rows.map((cells) => row(cells, "td"))}</tbody></table></div>`;
  },
  link: ({ href, tokens }, inner) => {
    const to = address(href);
    if (!to) return undefined;
    const name = tokens.map(({ raw }) => raw).join("");
    // A name can say anything; where it is not the address itself, the host is beside it.
    const isAddress = [name, `${to.protocol}//${name}`].some((each) => URL.canParse(each) && new URL(each).href === to.href);
    const host = isAddress ? "" : html`<bdi class="quiet"> (${to.host})</bdi>`;
    return html`<a href=${to.href} target="_blank" rel="noopener noreferrer nofollow">${inner(tokens)}</a>${host}`;
  },
};

/** The address of a link that may be followed; null for all but http and https. */
function address(href) {
  const to = URL.canParse(href) && new URL(href);
  return to && /^https?:$/.test(to.protocol) && !to.username && !to.password ? to : null;
}

function Code({ text }) {
  const [isCopied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true));
  return html`<div class="code" dir="ltr"><pre tabindex="0"><code>${text}</code></pre>
    ${navigator.clipboard && html`<button class="small" onClick=${copy}>${t("markdown.copy")}</button>`}
    <span class="unseen" role="status">${isCopied && t("markdown.copied")}</span></div>`;
}
