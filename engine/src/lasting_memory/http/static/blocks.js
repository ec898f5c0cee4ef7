// Markdown in blocks: what the library is given, so that nothing that anybody writes keeps the page waiting.

import { Lexer } from "./lib/marked.js";

// The library's time grows with the square of the signs of a paragraph, of an unbroken run of ASCII (it looks for addresses in it),
// and of the lines of a list; a table has as many cells as its head in every row; depth costs the stack. These are bounds of one block.
const MOST_CHARS = 20_000;
const MOST_CODE_CHARS = 200_000;
const MOST_LINES = 300;
const MOST_CELLS = 2_000;
const MOST_DEEP = 16;
const MOST_COST = 2_000_000; // about 10 ms
// These are bounds of a text: what comes after them is one block of plain text.
const MOST_BLOCKS = 2_000;
const MOST_TEXT_CHARS = 400_000;
const MOST_DEFINITIONS = 200;
const LIST_LINES = 100; // a longer list goes on in a second block

const SIGN_COST = 20;
const SIGNS = /[*_~[\]<`!\\&]/g;
const RUNS = /[!-~]+/g;
const DEEP = new RegExp(String.raw`^[ \t]*(([>*+-]|\d{1,9}[.)])[ \t]*){${MOST_DEEP + 1}}`, "m");

const BLANK = /^[ \t]*$/;
// What opens code, also in an item of a list, and what begins a block of nothing but code.
const FENCE = /^[ \t]*(?:(?:[*+-]|\d{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})/;
const CODE = /^ {0,3}(`{3,}[^`]*$|~{3,})/;
const HEADING = /^#{1,6}[ \t]/;
const ITEM = /^([*+-]|\d{1,9}[.)])[ \t]/;
const INDENTED = /^( {2}|\t)/;
const DEFINITION = /^ {0,3}\[[^\]]+\]:[ \t]*\S/;

const count = (text, pattern) => (text.match(pattern) ?? []).length;

/** About how long the library takes to read the signs in a paragraph. */
function cost(text) {
  let ofRuns = 0;
  for (const [run] of text.matchAll(RUNS)) ofRuns += run.length ** 2;
  const signs = count(text, SIGNS);
  return text.length + ofRuns + signs * text.length + SIGN_COST * signs ** 2;
}

function isBounded(block) {
  if (CODE.test(block.split("\n", 1)[0])) return block.length <= MOST_CODE_CHARS;
  if (block.length > MOST_CHARS || DEEP.test(block)) return false;
  const lines = block.split("\n");
  const columns = Math.max(...lines.map((line) => count(line, /\|/g)));
  return lines.length <= MOST_LINES && columns * lines.length <= MOST_CELLS;
}

/** The `blocks` of a text, and the `rest` of one that is too long. A block is read without the others, but for definitions of links. */
export function split(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let block = [];
  let fence = ""; // the signs that opened the code that is not closed yet
  let isOver = false; // the last line was blank, or the end of code
  let chars = 0;
  for (const [n, line] of lines.entries()) {
    if (fence && endsItem(line, block)) fence = "";
    if (block.length && !fence && beginsBlock(line, block, isOver)) {
      blocks.push(block.join("\n"));
      block = [];
    }
    if (!block.length && (blocks.length === MOST_BLOCKS || chars > MOST_TEXT_CHARS)) {
      return { blocks, rest: lines.slice(n).join("\n") };
    }
    block.push(line);
    chars += line.length + 1;
    const signs = FENCE.exec(line)?.[1] ?? "";
    const isEnd = fence !== "" && signs.startsWith(fence) && line.trim() === signs;
    isOver = isEnd ? CODE.test(block[0]) : !fence && BLANK.test(line);
    if (isEnd) fence = "";
    else if (!fence) fence = signs;
  }
  blocks.push(block.join("\n"));
  return { blocks, rest: "" };
}

/** Whether this line ends a list's item in which code is open. */
const endsItem = (line, block) => !CODE.test(block[0]) && !BLANK.test(line) && !INDENTED.test(line);

/** Whether a line outside of code begins another block than the one before it. */
function beginsBlock(line, block, isOver) {
  const isItem = ITEM.test(line) && ITEM.test(block[0]);
  if (isItem) return block.length >= LIST_LINES;
  const isFence = FENCE.test(line) && !INDENTED.test(line);
  if (isFence || HEADING.test(line)) return true;
  return isOver && !BLANK.test(line) && !INDENTED.test(line);
}

/** The lines of a text that define links, for `linksOf`. */
export function definitions(text) {
  if (!text.includes("]:")) return "";
  const lines = text.split("\n").filter((line) => line.length < 2_000 && DEFINITION.test(line));
  return lines.slice(0, MOST_DEFINITIONS).join("\n");
}

/** The links that these lines define, by name. */
export const linksOf = (lines) => readBlocks(lines)?.tokens.links ?? {};

function readBlocks(block, links = {}) {
  const lexer = new Lexer();
  Object.assign(lexer.tokens.links, links);
  try {
    lexer.blockTokens(block, lexer.tokens);
    return lexer;
  } catch {
    return null;
  }
}

/** The tokens of a block; null for a block that is shown as the text it is. What would take too long in it is text, too. */
export function read(block, links) {
  const lexer = isBounded(block) ? readBlocks(block, links) : null;
  if (!lexer) return null;
  let left = MOST_COST;
  for (const { src, tokens } of lexer.inlineQueue) {
    const needed = cost(src);
    if (needed <= left) {
      left -= needed;
      readSigns(lexer, src, tokens);
    } else tokens.push({ type: "text", raw: src, text: src });
  }
  return lexer.tokens;
}

function readSigns(lexer, src, tokens) {
  lexer.state.inRawBlock = false;
  try {
    lexer.inlineTokens(src, tokens);
  } catch {
    tokens.splice(0, tokens.length, { type: "text", raw: src, text: src });
  }
}
