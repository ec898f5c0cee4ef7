// Work in slices: what takes long is done piece by piece, and between the pieces the page answers clicks and keys.

const SLICE_MILLISECONDS = 10; // what is made in it is then laid out, which takes longer
let end = 0; // of the slice that has begun, by performance.now(); 0 where none has
const waiting = new Set();

/** Whether this slice has time left. Who asks and has none waits with `later`. */
export function hasTime() {
  if (!end) {
    end = performance.now() + SLICE_MILLISECONDS;
    setTimeout(goOn);
  }
  return performance.now() < end;
}

/** Call `work` in a later slice, in the order of the calls. Returns what takes this back. */
export function later(work) {
  waiting.add(work);
  if (!end) setTimeout(goOn);
  return () => waiting.delete(work);
}

function goOn() {
  end = 0;
  for (const work of waiting) {
    if (!hasTime()) return; // which has this called again
    waiting.delete(work);
    work();
  }
}
