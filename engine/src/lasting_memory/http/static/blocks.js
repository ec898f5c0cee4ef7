// Markdown in blocks: what the library is given, so that nothing that anybody writes keeps the page waiting.

import { Lexer } from "./lib/marked.js";

// The library's time grows with the square of the signs of a paragraph, of an unbroken run of ASCII (it looks for addresses in it),
// and of the lines of a list; a table has as many cells as its head in every row; depth costs the stack. These are bounds of one
// block: what exceeds them is shown as the text it is, and all around it as Markdown.
const MOST_CHARS = 20_000;
const MOST_CODE_CHARS = 200_000;
const MOST_LINES = 500;
const MOST_CELLS = 2_000;
const MOST_DEEP = 16;
const MOST_COST = 4_000_000; // about 20 ms
// A longer list, quotation, paragraph, table or code goes on in a second block.
const PART_LINES = 100;
const PART_CHARS = 8_000;
const PART_CELLS = 1_500;
const MOST_COLUMNS = 60; // of a table that does: its head comes again
const PART_CODE_CHARS = 100_000;
// A paragraph is read in pieces of about this cost, or up to this one where something stays open in it.
const PIECE_COST = 50_000;
const MOST_PIECE_COST = 500_000;
// Of a text with this many blocks, small ones go together: each is an element of the page.
const FEW_BLOCKS = 500;
const SMALL_CHARS = 1_000;
// No answer that the server takes has as much. What comes after it is plain text.
const MOST_BLOCKS = 5_000;
const MOST_TEXT_CHARS = 2_000_000;
const MOST_DEFINITIONS = 200;

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
const QUOTED = /^ {0,3}>/;
// Where a quotation may go on in another block: between its paragraphs, at its items and headings.
const QUOTED_PART = /^ {0,3}>[ \t]*($|[*+-][ \t]|\d{1,9}[.)][ \t]|#)/;
const ANY_ITEM = /^([ \t]*)([*+-]|\d{1,9}[.)])([ \t]+|$)/;
const DELIMITER = /^:?-+:?$/; // of a column, in the line below a table's head
const LETTER = /^\p{L}/u;
const CUTS_TRIED = 50;

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

/**
 * The `blocks` of a text, and the `rest` of one that is too long: { text, depth, start }. A block is read without the others, but
 * for definitions of links. One that goes on with a list has the number of its first item (`start`, or null), and how many
 * lists it is inside of (`depth`).
 */
export function split(text) {
  const splitter = new Splitter();
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (const [n, line] of lines.entries()) {
    if (splitter.isFull()) return { blocks: splitter.blocks, rest: [...splitter.lines, ...lines.slice(n)].join("\n") };
    splitter.take(line);
  }
  splitter.end();
  return { blocks: splitter.blocks, rest: "" };
}

/** Takes a text line by line, and puts its blocks together. */
class Splitter {
  blocks = [];
  lines = []; // of the block that has begun, without the indentation of the lists that it goes on with
  chars = 0; // of these
  depth = 0;
  start = null;
  cut = 0; // columns that are taken away at the beginning of each line
  fence = ""; // the signs that opened the code that is not closed yet
  isOver = false; // the last line was blank, or the end of code
  hasItems = false; // whether it has items of lists
  lists = new Lists();
  table = null; // { head, cells } of the table whose rows come now
  allChars = 0;

  isFull() {
    return this.blocks.length >= MOST_BLOCKS || this.allChars > MOST_TEXT_CHARS;
  }

  take(line) {
    if (this.fence && this.endsItem(line)) this.fence = "";
    if (this.fence) this.goOnWithCode(line);
    else this.goOn(line);
  }

  /** A line outside of code. */
  goOn(line) {
    const isItem = this.lists.take(line, this.isOver);
    if (this.lines.length && this.beginsBlock(line, isItem)) {
      this.begin();
      if (!isItem) this.lists = new Lists();
    } else if (this.lists.depth && this.isPart(line, isItem)) this.begin(this.lists.place(isItem));
    else if (this.isLong() && this.mayGoOnBelow(line)) this.begin();
    this.goOnWithTable(line);
    const parts = this.isInside() ? [line] : paragraphs(line);
    parts.forEach((part, n) => (n && this.begin(), this.add(part)));
    this.hasItems ||= isItem;
    this.fence = FENCE.exec(line)?.[1] ?? "";
    this.isOver = !this.fence && BLANK.test(line);
  }

  goOnWithCode(line) {
    const [first] = this.lines;
    if (CODE.test(first) && this.chars > PART_CODE_CHARS) {
      this.begin();
      this.add(first);
    }
    this.add(line);
    const signs = FENCE.exec(line)?.[1] ?? "";
    const isEnd = signs.startsWith(this.fence) && line.trim() === signs;
    this.isOver = isEnd && CODE.test(first);
    if (isEnd) this.fence = "";
  }

  /** Notes whether the rows of a table come. A long one goes on in another block, under the same head. */
  goOnWithTable(line) {
    const above = this.lines.at(-1) ?? "";
    if (BLANK.test(line) || !this.lines.length) this.table = null;
    else if (this.table) {
      this.table.cells += this.table.columns;
      if (this.table.cells < PART_CELLS && this.lines.length < MOST_LINES - PART_LINES) return;
      const { head, columns } = this.table;
      this.begin();
      head.forEach((each) => this.add(each));
      this.table = { head, columns, cells: columns };
    } else if (above.includes("|") && isBelowHead(line)) {
      const columns = count(line, /\|/g);
      this.table = columns <= MOST_COLUMNS ? { head: [above, line], columns, cells: columns } : null;
    }
  }

  add(line) {
    this.lines.push(this.cut ? line.replace(new RegExp(`^[ \\t]{0,${this.cut}}`), "") : line);
    this.chars += line.length + 1;
    this.allChars += line.length + 1;
  }

  /** End the block, and begin another one: at this place of the lists that go on, or outside of all lists. */
  begin({ depth = 0, start = null, cut = 0 } = {}) {
    this.end();
    Object.assign(this, { lines: [], chars: 0, depth, start, cut, table: null, hasItems: false });
  }

  end() {
    if (this.lines.length) this.blocks.push({ text: this.lines.join("\n"), depth: this.depth, start: this.start });
  }

  isLong() {
    return this.lines.length >= PART_LINES || this.chars >= PART_CHARS;
  }

  /** Whether what comes now is in a list, a table or a quotation. */
  isInside() {
    return this.lists.depth > 0 || this.table !== null || QUOTED.test(this.lines[0] ?? "");
  }

  /** Whether this line ends a list's item in which code is open. */
  endsItem(line) {
    return !CODE.test(this.lines[0]) && !BLANK.test(line) && !INDENTED.test(line);
  }

  /** Whether a line outside of code begins another block than the one before it. */
  beginsBlock(line, isItem) {
    const isSmall = this.blocks.length >= FEW_BLOCKS && this.chars < SMALL_CHARS && this.lines.length < PART_LINES && !this.depth;
    if (isItem && this.hasItems && ITEM.test(line)) return false; // as `isPart` says
    const isFence = FENCE.test(line) && !INDENTED.test(line) && !ITEM.test(line);
    if (isFence || (HEADING.test(line) && !isSmall)) return true;
    return this.isOver && !isSmall && !BLANK.test(line) && !INDENTED.test(line);
  }

  /** Whether a line of a list begins a block: where the one before is long, or is of a list inside of the line's own. */
  isPart(line, isItem) {
    if (BLANK.test(line) || !this.lines.length) return false;
    const isOutside = columns(line) < this.cut && (isItem || this.isOver);
    return isOutside || (isItem && this.isLong());
  }

  /** Whether a long paragraph, or a quotation, may be shown as two where this line begins. */
  mayGoOnBelow(line) {
    if (this.table || this.lists.depth) return false;
    if (!QUOTED.test(this.lines[0])) return LETTER.test(line) && LETTER.test(this.lines.at(-1));
    return QUOTED_PART.test(line) || (QUOTED.test(line) && this.lines.length >= MOST_LINES - PART_LINES);
  }
}

/** The lists that a line is inside of, from the outermost: { indent, content, sign, number } of the present item of each. */
class Lists {
  levels = [];

  get depth() {
    return this.levels.length;
  }

  /** Takes a line; returns whether it is an item. Another one after a blank line ends the items that it is not indented for. */
  take(line, isOver) {
    const [, , sign, space] = ANY_ITEM.exec(line) ?? [];
    if (sign === undefined) {
      if (isOver && !BLANK.test(line)) while (this.levels.length && columns(line) < this.levels.at(-1).content) this.levels.pop();
      return false;
    }
    const indent = columns(line);
    const content = indent + sign.length + (space.length > 4 || !space ? 1 : space.length);
    while (this.levels.length > 1 && indent < this.levels.at(-2).content) this.levels.pop();
    const last = this.levels.at(-1);
    const kind = sign.at(-1);
    if (last && indent < last.content) {
      const number = last.kind === kind ? last.number + 1 : parseInt(sign, 10);
      this.levels[this.levels.length - 1] = { indent, content, kind, number };
    } else if (this.levels.length <= MOST_DEEP) this.levels.push({ indent, content, kind, number: parseInt(sign, 10) });
    return true;
  }

  /** Where in the lists a block begins with an item, or with something else that an item has. */
  place(isItem) {
    const last = this.levels.at(-1);
    if (!isItem) return { depth: this.levels.length, cut: last.content };
    return { depth: this.levels.length - 1, start: last.number || null, cut: last.indent };
  }
}

/** Whether this is the line between a table's head and its rows. */
function isBelowHead(line) {
  const cells = line.trim().replace(/^\||\|$/g, "").split("|");
  return line.includes("|") && cells.every((cell) => DELIMITER.test(cell.trim()));
}

/** Columns of white space at the beginning of a line. */
const columns = (line) => /^[ \t]*/.exec(line)[0].replaceAll("\t", "    ").length;

/** A line, or one that is too long for a paragraph as several. Each begins with a letter, and so with no sign of Markdown. */
function paragraphs(line) {
  if (line.length < 2 * PART_CHARS || !LETTER.test(line)) return [line];
  const parts = [];
  let rest = line;
  while (rest.length >= 2 * PART_CHARS) {
    const end = endOfPart(rest);
    if (!end) break;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...parts, rest];
}

/** Where the last word ends that a part of this line has room for, before a word; 0 where that is not found soon. */
function endOfPart(line) {
  let end = PART_CHARS;
  for (let tries = 0; tries < CUTS_TRIED && end > 0; tries++) {
    end = line.lastIndexOf(" ", end);
    if (end > 0 && LETTER.test(line.slice(end + 1, end + 3))) return end + 1;
    end -= 1;
  }
  return 0;
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
export function read({ text, start }, links) {
  const lexer = isBounded(text) ? readBlocks(text, links) : null;
  if (!lexer) return null;
  const [first] = lexer.tokens;
  if (start !== null && first?.type === "list" && first.ordered) first.start = start;
  let left = MOST_COST;
  for (const { src, tokens } of lexer.inlineQueue) {
    for (const piece of pieces(src)) {
      const needed = cost(piece);
      if (needed <= left) {
        left -= needed;
        tokens.push(...readSigns(lexer, piece));
      } else tokens.push(asText(piece));
    }
  }
  return lexer.tokens;
}

const asText = (text) => ({ type: "text", raw: text, text });

/** A paragraph in pieces that take the library a moment each. A piece ends at a word's end, where nothing is open if that comes. */
function pieces(text) {
  if (cost(text) <= PIECE_COST) return [text];
  const ended = [];
  let piece = new Piece();
  for (const [word] of text.matchAll(/\S+\s*|\s+/g)) {
    piece.add(word);
    if (piece.cost > (piece.isClosed ? PIECE_COST : MOST_PIECE_COST)) {
      ended.push(piece.text);
      piece = new Piece();
    }
  }
  return piece.text ? [...ended, piece.text] : ended;
}

class Piece {
  text = "";
  ofRuns = 0;
  signs = 0;
  open = { "`": 0, "*": 0, "[": 0 };

  add(word) {
    this.text += word;
    for (const [run] of word.matchAll(RUNS)) this.ofRuns += run.length ** 2;
    this.signs += count(word, SIGNS);
    this.open["`"] += count(word, /`/g);
    this.open["*"] += count(word, /\*/g);
    this.open["["] += count(word, /\[/g) - count(word, /\]/g);
  }

  get cost() {
    return this.text.length + this.ofRuns + this.signs * this.text.length + SIGN_COST * this.signs ** 2;
  }

  get isClosed() {
    return this.open["`"] % 2 === 0 && this.open["*"] % 2 === 0 && this.open["["] <= 0;
  }
}

function readSigns(lexer, src) {
  lexer.state.inRawBlock = false;
  try {
    return lexer.inlineTokens(src, []);
  } catch {
    return [asText(src)];
  }
}
