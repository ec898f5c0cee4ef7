// What is attached to a message: pictures, made smaller here, and text files. What may be attached, the server decides again.

import { refusal } from "./client.js";
import { size } from "./text.js";
import { t } from "./texts.js";

// Bounds of one message. The server takes no larger picture, and no others.
export const MOST_PICTURES = 4;
const MOST_PICTURE_BYTES = 3_000_000;
const MOST_TEXT_BYTES = 200_000;
const MOST_TEXTS = 4;
const MOST_NAME = 200; // characters
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
// Models look at no more of a picture than about this. It also leaves behind where a photograph was taken.
const MOST_PIXELS = 1_568; // of its longer side
const QUALITY = 0.85;

const isPicture = ({ type }) => PICTURES.includes(type);
const refuse = (why) => Promise.reject(refusal(422, why));

/** What `<input accept>` takes, where the model looks at `pictures`, or does not. */
export const accepted = (pictures) => ["text/*", ".md", ".csv", ".json", ".log", ...(pictures ? PICTURES : [])].join(",");

/** These files as attachments, { name, block } each, after `present` ones. Throws a `refusal` for what may not be attached. */
export async function attach(files, present, pictures) {
  const added = [...present];
  for (const file of files) {
    if (file.type.startsWith("image/") && !pictures) await refuse(t("attachments.no_pictures"));
    const block = file.type.startsWith("image/") ? await pictureBlock(file) : await textBlock(file);
    added.push({ name: file.name.slice(0, MOST_NAME) || t("attachments.unnamed"), block });
  }
  const count = (type) => added.filter(({ block }) => block.type === type).length;
  if (count("image") > MOST_PICTURES) await refuse(t("attachments.too_many_pictures", { count: MOST_PICTURES }));
  if (count("text") > MOST_TEXTS) await refuse(t("attachments.too_many_texts", { count: MOST_TEXTS }));
  return added;
}

async function pictureBlock(file) {
  if (!isPicture(file)) return refuse(t("attachments.other_picture", { name: file.name }));
  const small = await made(file).catch(() => null);
  if (!small) return refuse(t("attachments.no_picture", { name: file.name }));
  if (small.size > MOST_PICTURE_BYTES) return refuse(t("attachments.too_large", { name: file.name, size: size(MOST_PICTURE_BYTES) }));
  return { type: "image", base64: toBase64(new Uint8Array(await small.arrayBuffer())), mime_type: small.type };
}

/** A picture as it is sent: small enough, and nothing in it but what one sees. A small GIF stays, since it may move. */
async function made(file) {
  const bitmap = await createImageBitmap(file);
  if (await isSmallGif(file)) return file;
  const scale = Math.min(1, MOST_PIXELS / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((length) => Math.max(1, Math.round(length * scale)));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  const as = (type) => new Promise((done) => canvas.toBlob(done, type, QUALITY));
  const same = await as(file.type === "image/gif" ? "image/png" : file.type);
  return same.size <= MOST_PICTURE_BYTES ? same : as("image/jpeg");
}

/** Whether its bytes are a GIF's: the type that a browser gives a file is that of its name. */
async function isSmallGif(file) {
  if (file.type !== "image/gif" || file.size > MOST_PICTURE_BYTES) return false;
  return (await file.slice(0, 4).text()) === "GIF8";
}

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32_768) text += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  return btoa(text);
}

async function textBlock(file) {
  if (file.size > MOST_TEXT_BYTES) return refuse(t("attachments.too_large", { name: file.name, size: size(MOST_TEXT_BYTES) }));
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return refuse(t("attachments.no_text", { name: file.name }));
  }
  if (text.includes("\0")) return refuse(t("attachments.no_text", { name: file.name }));
  return { type: "text", text: fenced(file.name.slice(0, MOST_NAME), text) };
}

/** A file's text between fences that it does not have itself, below its name. */
function fenced(name, text) {
  const fences = text.match(/`{3,}/g) ?? [];
  const fence = "`".repeat(Math.max(3, ...fences.map((each) => each.length + 1)));
  return `${name.replace(/[\r\n]+/g, " ")}\n${fence}\n${text}\n${fence}`;
}

/** A message of a person's for the server. It says which of its blocks are attached: they are not the person's own words. */
export function written(text, attached) {
  if (!attached.length) return { type: "human", content: text };
  const own = text ? [{ type: "text", text }] : [];
  const attachments = attached.map(({ name }, n) => ({ name, block: own.length + n }));
  return { type: "human", content: [...own, ...attached.map(({ block }) => block)], additional_kwargs: { attachments } };
}

/** What is attached to a message, as `attach` gives it. */
export function attachedTo({ content, additional_kwargs: about }) {
  if (!Array.isArray(content)) return [];
  const names = new Map(listed(about).map(({ name, block }) => [block, String(name ?? "")]));
  const blocks = content.map((block, n) => ({ name: names.get(n) ?? "", block, isNamed: names.has(n) }));
  const isAttached = ({ block, isNamed }) => block?.type === "image" || (isNamed && block?.type === "text");
  return blocks.filter(isAttached).map(({ name, block }) => ({ name, block }));
}

const listed = (about) => (Array.isArray(about?.attachments) ? about.attachments : []).filter(Boolean);

/** What of a message's content are its writer's own words: all but what is attached. */
export function ownWords({ content, additional_kwargs: about }) {
  if (!Array.isArray(content)) return content;
  const attached = new Set(listed(about).map(({ block }) => block));
  return content.filter((_, n) => !attached.has(n));
}

/** The bytes of a picture that came with a message; null for what is no picture that is shown. */
export function pictureOf({ base64, mime_type: type }) {
  if (!PICTURES.includes(type) || typeof base64 !== "string") return null;
  try {
    return new Blob([Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0))], { type });
  } catch {
    return null;
  }
}

const DATA = /^data:(image\/[a-z]+);base64,/;

/** The pictures that a model made in its answer, as `attachedTo` gives those of people. Only bytes that are in the message. */
export function madeBy({ content }) {
  if (!Array.isArray(content)) return [];
  return content.map(madePicture).filter((block) => typeof block?.base64 === "string").map((block) => ({ name: "", block }));
}

/** A block's picture in langchain's form, whichever form its provider gave it: OpenAI's tool, an address that is the picture itself. */
function madePicture(block) {
  if (block?.type === "image") return block;
  if (block?.type === "image_generation_call") return { type: "image", base64: block.result, mime_type: "image/png" };
  const address = block?.type === "image_url" ? (block.image_url?.url ?? block.image_url) : null;
  const match = typeof address === "string" && DATA.exec(address);
  return match ? { type: "image", base64: address.slice(match[0].length), mime_type: match[1] } : null;
}
