/**
 * Starts the worker before the rest of the page is read, since that takes a browser as long as reading the first
 * chunks. The worker waits for messages of main.js.
 */
const workerText = document.getElementById("worker")?.textContent ?? "";
const workerSource = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
window.memtrace = { worker: new Worker(workerSource), workerSource };
