// What is being sent, for the moment until the server has it: a reload in that moment puts it back into the message box.

const KEPT = "unsent message";

// Whether the page is being left: a request that ends for that has not failed.
let isLeft = false;
addEventListener("beforeunload", () => (isLeft = true));

/** Keep the text that `person` is sending. */
export function keepUnsent(person, text) {
  isLeft = false;
  sessionStorage.setItem(KEPT, JSON.stringify({ person, text }));
}

export const forgetUnsent = () => isLeft || sessionStorage.removeItem(KEPT);

/** The text that `person` was sending when the page was left; "" for none. It is kept no longer. */
export function takeUnsent(person) {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
  forgetUnsent();
  return kept.person === person ? kept.text : "";
}
