// Markdown as elements from a list: what is not on it is shown as the text it is. Nothing is made of HTML, and nothing is loaded.

import { html, useMemo } from "./lib/preact.js";
import { lexer } from "./lib/marked.js";
import { Lines } from "./text.js";

// Beyond these a text is shown as it is: the time to read a block grows with the square of its signs and of its lines, a table has
// as many cells as its head in every row, and depth costs the stack.
const MOST_CHARS = 20_000;
const MOST_SIGNS = 1_000;
const MOST_LINES = 500;
const MOST_CELLS = 2_000;
const MOST_DEEP = 16;
const SIGNS = /[*_~[\]<`!]/g;
const DEEP = new RegExp(String.raw`^[ \t]*(([>*+-]|\d{1,9}[.)])[ \t]*){${MOST_DEEP + 1}}`, "m");

const count = (text, sign) => (text.match(sign) ?? []).length;

function isBoundedBlock(block) {
  const lines = block.split("\n");
  const columns = Math.max(...lines.map((line) => count(line, /\|/g)));
  return lines.length <= MOST_LINES && columns * lines.length <= MOST_CELLS && count(block, SIGNS) <= MOST_SIGNS;
}

const isBounded = (text) => text.length <= MOST_CHARS && !DEEP.test(text) && text.split(/\n[ \t]*\n/).every(isBoundedBlock);

function read(text) {
  try {
    return isBounded(text) ? lexer(text) : null;
  } catch {
    return null;
  }
}

/** Text that a model wrote. */
export function Markdown({ text }) {
  const tokens = useMemo(() => read(text), [text]);
  return tokens ? html`<div class="markdown">${elements(tokens)}</div>` : html`<${Lines} text=${text} />`;
}

const elements = (tokens = [], deep = 0) => tokens.map((token) => element(token, deep + 1));

function element(token, deep) {
  const make = Object.hasOwn(MADE, token.type) && deep <= 2 * MOST_DEEP ? MADE[token.type] : () => undefined;
  return make(token, (tokens) => elements(tokens, deep)) ?? token.raw;
}

// By the type of a token: the element for it, or undefined for its text. `inner` makes the elements of the tokens in it.
const MADE = {
  space: () => "",
  hr: () => html`<hr />`,
  br: () => html`<br />`,
  escape: ({ text }) => text,
  text: ({ tokens, text }, inner) => (tokens ? inner(tokens) : text),
  paragraph: ({ tokens }, inner) => html`<p>${inner(tokens)}</p>`,
  heading: ({ depth, tokens }, inner) => html`<p class="heading" role="heading" aria-level=${Math.min(depth + 3, 6)}>${inner(tokens)}</p>`,
  blockquote: ({ tokens }, inner) => html`<blockquote>${inner(tokens)}</blockquote>`,
  strong: ({ tokens }, inner) => html`<strong>${inner(tokens)}</strong>`,
  em: ({ tokens }, inner) => html`<em>${inner(tokens)}</em>`,
  del: ({ tokens }, inner) => html`<del>${inner(tokens)}</del>`,
  codespan: ({ text }) => html`<code>${text}</code>`,
  code: ({ text }) => html`<${Code} text=${text} />`,
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  list: ({ ordered, start, items }, inner) => {
    const entries = items.map(({ tokens }) => html`<li>${inner(tokens)}</li>`);
    return ordered ? html`<ol start=${start}>${entries}</ol>` : html`<ul>${entries}</ul>`;
  },
  table: ({ header, rows }, inner) => {
    const row = (cells, tag) => html`<tr>${cells.map(({ tokens }) => html`<${tag}>${inner(tokens)}<//>`)}</tr>`;
    return html`<div class="table" tabindex="0" role="group" aria-label="Table"><table>
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

const Code = ({ text }) => html`<div class="code"><pre tabindex="0"><code>${text}</code></pre>
  ${navigator.clipboard && html`<button class="small" onClick=${() => navigator.clipboard.writeText(text)}>Copy</button>`}</div>`;
