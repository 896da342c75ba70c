/**
 * Measures PyTorch's own viewer on a snapshot, as measure.mjs measures our pages: its file, its first picture, the time from
 * frame to frame while a wheel turns, and what pointing at a block takes.
 *
 * It is not ours to keep here: MEMORY_VIZ names a folder with torch/utils/viz/MemoryViz.js of PyTorch and d3.js, which is
 * dist/d3.js of d3 5, as it imports that.
 */
import { createReadStream, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const OPENS_MS = 240000; // the longest that a picture may take

/** Returns MemoryViz.js with d3 from a script of the page in place of the network. */
function programOf(folder) {
    return readFileSync(join(folder, "MemoryViz.js"), "utf8")
        .replace(/^import \* as (\w+) from .*$/gm, "const $1 = window.d3;")
        .replace(/^import (\{.*?\}) from .*$/gm, "const $1 = window.d3;");
}

const PAGE = `<!doctype html><meta charset="utf-8"><body><script src="/d3.js"></script><script type="module">
import { add_local_files, add_remote_files } from "/MemoryViz.js";
add_local_files([], "Active Memory Timeline");
add_remote_files([{ name: "snapshot", url: "/snapshot" }]);
new MutationObserver((_, observer) => {
    if (!document.querySelector("svg polygon, svg path")) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => { window.firstMs = performance.now(); }));
}).observe(document.body, { childList: true, subtree: true });
</script>`;

/** Serves the viewer and a snapshot. Returns the server. */
async function serve(folder, snapshot) {
    const server = createServer(({ url }, response) => {
        const type = url.endsWith(".js") ? "text/javascript" : url === "/" ? "text/html" : "application/octet-stream";
        response.setHeader("content-type", type);
        if (url === "/snapshot") createReadStream(snapshot).pipe(response);
        else if (url === "/MemoryViz.js") response.end(programOf(folder));
        else if (url === "/d3.js") response.end(readFileSync(join(folder, "d3.js")));
        else response.end(PAGE);
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
}

/** Returns the times from frame to frame while the wheel turns, and those of pointing at blocks. */
const turnAndPoint = (count) =>
    `(async () => {
        const svg = document.querySelector("svg");
        const { left, top, width, height } = svg.getBoundingClientRect();
        const gaps = [];
        let last = performance.now();
        for (let i = 0; i < ${count}; i++) {
            const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true, cancelable: true };
            svg.dispatchEvent(new WheelEvent("wheel", { deltaY: i % 2 ? 8 : -8, ...at }));
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            gaps.push(now - last);
            last = now;
        }
        const hits = [];
        for (let i = 0; i < ${count}; i++) {
            const clientX = left + 90 + ((i * 173) % (width - 120));
            const clientY = top + height * 0.5 + ((i * 61) % (height * 0.45));
            const began = performance.now();
            const target = document.elementFromPoint(clientX, clientY) ?? svg;
            target.dispatchEvent(new MouseEvent("mouseover", { clientX, clientY, bubbles: true }));
            hits.push(performance.now() - began);
        }
        return { gaps, hits };
    })()`;

/**
 * Returns what was measured, by what measure.mjs calls the same.
 * @returns {Promise<Record<string, number>>}
 */
export async function measurePeer(browser, folder, snapshot, { count, median }) {
    const server = await serve(folder, snapshot);
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    try {
        await page.goto(`http://127.0.0.1:${server.address().port}/`);
        await page.waitForFunction("window.firstMs > 0", null, { timeout: OPENS_MS, polling: 100 });
        const first = await page.evaluate("window.firstMs");
        const { gaps, hits } = await page.evaluate(turnAndPoint(count));
        return {
            file: statSync(snapshot).size / 1e6,
            "first picture, a debugger attached": first,
            "from frame to frame, full view": median(gaps),
            "hit test": median([...hits]),
            "hit test, the worst": Math.max(...hits),
        };
    } finally {
        await context.close();
        server.close();
    }
}
