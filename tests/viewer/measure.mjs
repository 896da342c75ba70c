/**
 * Prints how large and how fast pages are: node measure.mjs [--rows TITLE | --promised TITLE] [--peer SNAPSHOT] PAGE.html …
 *
 * What was promised holds for the page of a million allocations that tools/bench viewer has the program write; other
 * pages of as many may be lighter or heavier, since a frame's work depends on spans and sizes, too.
 * With a title as rows for tools/bench, in the form that bench/report.h tells; --promised puts the targets to them.
 *
 * Times are the page's own. The first picture is the median of OPENINGS in a browser that runs, with no debugger attached
 * until it is there; and, since that is how tests see it, with one from the beginning. A frame's work is the median of
 * FRAMES, each after a turn of the wheel that came through the browser; "from frame to frame" is how the browser presents
 * them while one turns on.
 * With a snapshot of the same run, PyTorch's own viewer is measured beside (memory_viz.mjs).
 * The heap is the page's and the worker's is gone by then; arrays' own memory counts.
 */
import { statSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { openPage, settle, startBrowser, startUnwatchedBrowser, stateOf } from "./browser.mjs";
import { measurePeer } from "./memory_viz.mjs";

const OPENINGS = 5;
const LOADS_MS = 4000; /* longer than any page takes that is measured */
const FRAMES = 40;

function median(values) {
    return values.sort((a, b) => a - b)[values.length >> 1];
}

/** Zooms in and out again by a little, around a width: the page's time for a frame. */
async function measureFrames(page) {
    const box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const times = [];
    for (let i = 0; i < FRAMES; i++) {
        const { frames } = await stateOf(page);
        await page.mouse.wheel(0, i % 2 ? 8 : -8);
        await page.waitForFunction(
            (before) => Number(document.getElementById("page").dataset.frames) > before,
            frames,
            {
                polling: "raf",
            },
        );
        times.push(Number((await stateOf(page)).frameMs));
    }
    return median(times);
}

/** The same without a pause: the browser's time from one frame to the next. */
async function measureGaps(page) {
    const gaps = await page.evaluate(async (count) => {
        const target = document.getElementById("map");
        const { left, top, width } = target.getBoundingClientRect();
        const at = { clientX: left + width / 2, clientY: top + 50, bubbles: true, cancelable: true };
        const gaps = [];
        let last = performance.now();
        for (let i = 0; i < count; i++) {
            target.dispatchEvent(new WheelEvent("wheel", { deltaY: i % 2 ? 8 : -8, ...at }));
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            gaps.push(now - last);
            last = now;
        }
        return gaps;
    }, FRAMES);
    return median(gaps);
}

async function measureHits(page) {
    const box = await page.locator("#map").boundingBox();
    const times = [];
    for (let i = 0; i < FRAMES; i++) {
        await page.mouse.move(box.x + 90 + ((i * 173) % (box.width - 120)), box.y + 5 + ((i * 61) % (box.height - 10)));
        times.push(Number((await stateOf(page)).hitMs));
    }
    return { median: median([...times]), worst: Math.max(...times) };
}

async function heapOf(page) {
    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize, backingStorageSize = 0, embedderHeapUsedSize = 0 } = await session.send("Runtime.getHeapUsage");
    return usedSize + backingStorageSize + embedderHeapUsedSize;
}

async function measureFirst(unwatched, url) {
    const times = [];
    for (let i = 0; i < OPENINGS; i++) times.push(Number((await unwatched.look(url, LOADS_MS)).firstMs));
    return median(times);
}

async function measureWatchedFirst(browser, url) {
    const times = [];
    for (let i = 0; i < OPENINGS; i++) {
        const page = await openPage(browser, url);
        times.push(Number((await stateOf(page)).firstMs));
        await page.context().close();
    }
    return median(times);
}

/** What was measured: [{ what, unit, value, target }]; without a target nothing was promised. */
async function measure({ browser, unwatched }, url) {
    const first = await measureFirst(unwatched, url);
    const watchedFirst = await measureWatchedFirst(browser, url);
    const page = await openPage(browser, url);
    const { length } = await stateOf(page);
    const heap = await heapOf(page);
    const full = [await measureFrames(page), await measureGaps(page)];
    const hits = await measureHits(page);
    await page.goto(`${url}#x=time&from=${length * 0.45}&to=${length * 0.55}`);
    await settle(page);
    const tenth = [await measureFrames(page), await measureGaps(page)];
    await page.context().close();
    return [
        { what: "file", unit: "MB", value: statSync(fileURLToPath(url)).size / 1e6, target: 10 },
        { what: "first picture", unit: "ms", value: first, target: 1000 },
        { what: "first picture, a debugger attached", unit: "ms", value: watchedFirst },
        { what: "heap", unit: "MB", value: heap / 1e6, target: 200 },
        { what: "frame, full view", unit: "ms", value: full[0], target: 33 },
        { what: "frame, a tenth", unit: "ms", value: tenth[0], target: 8 },
        { what: "from frame to frame, full view", unit: "ms", value: full[1] },
        { what: "from frame to frame, a tenth", unit: "ms", value: tenth[1] },
        { what: "hit test", unit: "ms", value: hits.median, target: 1 },
        { what: "hit test, the worst", unit: "ms", value: hits.worst },
    ];
}

function printTable(title, rows) {
    console.log(title);
    for (const { what, unit, value, target, peer } of rows) {
        const beside = peer === undefined ? "" : `, PyTorch's ${peer.toFixed(2)}`;
        console.log(
            `  ${what.padEnd(36)}${value.toFixed(2).padStart(9)} ${unit}${target ? `, target ${target}` : ""}${beside}`,
        );
    }
}

function printRows({ title, promised }, rows) {
    for (const { what, unit, value, target, peer } of rows) {
        const bound = promised && target ? ["<=", target] : ["", ""];
        console.log([`${title}: ${what}`, unit, value.toPrecision(6), peer?.toPrecision(6) ?? "", ...bound].join("\t"));
    }
}

const words = process.argv.slice(2);
const form = ["--rows", "--promised"].includes(words[0])
    ? { promised: words[0] === "--promised", title: words.splice(0, 2)[1] }
    : null;
const snapshot = words[0] === "--peer" ? words.splice(0, 2)[1] : "";

/** Returns the figures of PyTorch's viewer; none if it is not there, or shows nothing. */
async function measureBeside(browser) {
    if (!snapshot || !process.env.MEMORY_VIZ) return {};
    try {
        return await measurePeer(browser, process.env.MEMORY_VIZ, snapshot, { count: FRAMES, median });
    } catch (error) {
        console.error(`MemoryViz.js does not show ${snapshot}: ${String(error.message).split("\n")[0]}`);
        return {};
    }
}

const started = await startBrowser();
const unwatched = await startUnwatchedBrowser();
for (const path of words) {
    const peers = await measureBeside(started.browser);
    const rows = await measure({ browser: started.browser, unwatched }, pathToFileURL(path).href);
    for (const row of rows) row.peer = peers[row.what];
    if (form) printRows(form, rows);
    else printTable(path, rows);
}
await unwatched.close();
await started.close();
