// Runs xoptim in Pyodide, in a thread of its own.
// Receives {bytes, name}; sends {stage}, {ready}, {error, isFatal}, or what `optimized` of optimize.py returns.

const say = (message) => self.postMessage(message);
const url = (name) => new URL(name, self.location.href).href;
const reason = (error) => String(error?.message ?? error).trim().split("\n").pop();

async function text(name) {
  const answer = await fetch(url(name));
  if (!answer.ok) throw new Error(`cannot load ${name}: ${answer.status}`);
  return answer.text();
}

async function start() {
  say({ stage: "loading Python" });
  const packages = JSON.parse(await text("packages.json"));
  const base = url(packages.pyodide);
  const { loadPyodide } = await import(`${base}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: base });
  say({ stage: "loading packages" });
  const quiet = { messageCallback() {}, errorCallback() {} }; // what is missing is named by the import below
  await python.loadPackage([...packages.names, ...packages.wheels.map(url)], quiet);
  python.runPython(await text("optimize.py"));
  return python.globals.get("optimized");
}

const started = start();
started.then(() => say({ ready: true }), (error) => say({ error: reason(error), isFatal: true }));

self.onmessage = async ({ data }) => {
  try {
    const optimized = await started;
    say({ stage: "optimizing" });
    const result = optimized(data.bytes, data.name);
    say(result.toJs({ dict_converter: Object.fromEntries }));
    result.destroy();
  } catch (error) {
    say({ error: reason(error) });
  }
};
