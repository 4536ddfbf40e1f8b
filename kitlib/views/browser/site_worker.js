// Python beside the page: Pyodide in a web worker, with the kit's models in it. The page stays alive while a run is made.

const HERE = new URL("./", import.meta.url);
let desk = null;

// What is fetched is counted, so that the page can show how far it is; `onLost` hears of a file that does not come,
// for which Pyodide itself would wait for ever.
function countFetches(bytes, onLost) {
  const fetchAsBefore = self.fetch;
  let [received, shown] = [0, 0];
  self.fetch = async (...request) => {
    const answer = await fetchAsBefore(...request).catch((error) => { onLost(error); throw error; });
    if (!answer.ok) onLost(new Error(`${answer.status} at ${answer.url}`));
    const counter = new TransformStream({
      transform(chunk, out) {
        received += chunk.length;
        if (received - shown > bytes / 100) postMessage({ kind: "progress", part: (shown = received) / bytes });
        out.enqueue(chunk);
      },
    });
    return new Response(answer.body.pipeThrough(counter), { status: answer.status, headers: answer.headers });
  };
}

async function load() {
  const parcel = fetch(new URL("kit.zip", HERE)).then((answer) => answer.arrayBuffer());
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", HERE));
  const python = await loadPyodide({ indexURL: new URL("pyodide/", HERE).href });
  python.unpackArchive(await parcel, "zip", { extractDir: "/kit" });
  python.runPython("import sys; sys.path.insert(0, '/kit')");
  desk = python.pyimport("kitlib.views.browser.worker_desk").Desk();
}

function answer({ id, ...asked }) {
  const row = JSON.parse(desk.answer(JSON.stringify(asked)));
  if (row.refused) return postMessage({ kind: "refused", id, sentence: row.refused });
  const held = desk.frames, bytes = held.toJs();
  held.destroy();
  postMessage({ kind: "answer", id, ...row, frames: bytes }, [bytes.buffer]);
}

let ready = null;
onmessage = async ({ data }) => {
  if (data.do === "load") {
    const lost = new Promise((_, refuse) => countFetches(data.bytes, refuse));
    ready = Promise.race([lost, load()]);
    ready.then(() => postMessage({ kind: "ready" }), (error) => postMessage({ kind: "failed", reason: `${error.message ?? error}`.slice(0, 300) }));
    return;
  }
  try {
    await ready;
    answer(data);
  } catch (error) {
    console.error(error);
    postMessage({ kind: "refused", id: data.id, sentence: "Python has stopped in this page. Reload it to go on." });
  }
};
