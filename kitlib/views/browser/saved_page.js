// A page that holds one recorded run. Whatever is wrong with it, the reader is told in a sentence.

const PLACE = document.getElementById("kit-place");

function showRecording() {
  const { format, heading, told, frames, recording } = JSON.parse(document.getElementById("kit-saved").textContent);
  if (format !== FORMAT) return tell(`This page holds a recording of format ${format}, and its script reads format ${FORMAT}. Save the run again.`);
  const bytes = typeof frames === "string" ? Uint8Array.from(atob(frames), (one) => one.charCodeAt(0)) : new TextEncoder().encode(JSON.stringify(frames));
  const root = html("div");
  PLACE.append(root);
  new Player(recorded({ heading, told, frames: bytes, step: told.at }, recording), root);
  tell("");
}

for (const kind of ["error", "unhandledrejection"]) {
  addEventListener(kind, () => tell("This page is damaged: from here on its picture may be wrong. Save the run again."));
}
try {
  showRecording();
} catch (error) {
  console.error(error);
  PLACE.replaceChildren();
  tell("This page is damaged, so its recording cannot be shown. Save the run again, or repeat it as it says below.");
}
