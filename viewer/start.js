/**
 * Starts the worker before anything else of the page is read, since that takes a browser as long as reading the first
 * chunks. It waits for what main.js sends it.
 */
const workerText = document.getElementById("worker").textContent;
const workerSource = URL.createObjectURL(new Blob([workerText], { type: "text/javascript" }));
window.memtrace = { worker: new Worker(workerSource), workerSource };
