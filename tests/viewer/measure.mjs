/**
 * Prints how large and how fast a page is: node measure.mjs [--rows TITLE | --promised TITLE] [ALLOCATIONS | PAGE.html] …
 *
 * With a title as rows for tools/bench, in the form that bench/report.h tells; --promised puts the targets to them, which
 * are those of a page of one million allocations.
 *
 * Times are the page's own, of its work in a frame, the median of FRAMES; "shown" is from one frame to the next as the
 * browser presents them. The heap is the page's and the worker's is gone by then; arrays' own memory counts.
 */
import { statSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { openPage, settle, startBrowser, stateOf } from "./browser.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const FRAMES = 40;

function median(values) {
    return values.sort((a, b) => a - b)[values.length >> 1];
}

/** Zooms in and out again by a little, around a width; the page's and the browser's time for a frame. */
async function measureFrames(page) {
    const box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const own = [];
    const shown = [];
    for (let i = 0; i < FRAMES; i++) {
        const began = await page.evaluate(() => {
            window.began = performance.now();
            return Number(document.getElementById("page").dataset.frames);
        });
        await page.mouse.wheel(0, i % 2 ? 8 : -8);
        await page.waitForFunction((frames) => Number(document.getElementById("page").dataset.frames) > frames, began, {
            polling: "raf",
        });
        const state = await stateOf(page);
        own.push(Number(state.frameMs));
    }
    const gaps = await page.evaluate(async (count) => {
        const target = document.getElementById("map");
        const { left, top, width } = target.getBoundingClientRect();
        const gaps = [];
        let last = performance.now();
        for (let i = 0; i < count; i++) {
            target.dispatchEvent(
                new WheelEvent("wheel", {
                    deltaY: i % 2 ? 8 : -8,
                    clientX: left + width / 2,
                    clientY: top + 50,
                    bubbles: true,
                    cancelable: true,
                }),
            );
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            gaps.push(now - last);
            last = now;
        }
        return gaps;
    }, FRAMES);
    shown.push(...gaps);
    return { own: median(own), shown: median(shown) };
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

/** What was measured: [{ what, unit, value, target }]; without a target nothing was promised. */
async function measure(browser, url) {
    const page = await openPage(browser, url);
    const first = await stateOf(page);
    const heap = await heapOf(page);
    const full = await measureFrames(page);
    const hits = await measureHits(page);
    await page.goto(`${url}#x=time&from=${first.length * 0.45}&to=${first.length * 0.55}`);
    await settle(page);
    const tenth = await measureFrames(page);
    await page.context().close();
    return [
        { what: "file", unit: "MB", value: statSync(fileURLToPath(url)).size / 1e6, target: 10 },
        { what: "first picture", unit: "ms", value: Number(first.firstMs), target: 1000 },
        { what: "heap", unit: "MB", value: heap / 1e6, target: 200 },
        { what: "frame, full view", unit: "ms", value: full.own, target: 33 },
        { what: "frame, a tenth", unit: "ms", value: tenth.own, target: 8 },
        { what: "from frame to frame, full view", unit: "ms", value: full.shown },
        { what: "from frame to frame, a tenth", unit: "ms", value: tenth.shown },
        { what: "hit test", unit: "ms", value: hits.median, target: 1 },
        { what: "hit test, the worst", unit: "ms", value: hits.worst },
    ];
}

function printTable(title, rows) {
    console.log(title);
    for (const { what, unit, value, target } of rows)
        console.log(`  ${what.padEnd(32)}${value.toFixed(2).padStart(9)} ${unit}${target ? `, target ${target}` : ""}`);
}

function printRows({ title, promised }, rows) {
    for (const { what, unit, value, target } of rows) {
        const bound = promised && target ? ["<=", target] : ["", ""];
        console.log([`${title}: ${what}`, unit, value.toPrecision(6), "", ...bound].join("\t"));
    }
}

const words = process.argv.slice(2);
const form = ["--rows", "--promised"].includes(words[0])
    ? { promised: words[0] === "--promised", title: words.splice(0, 2)[1] }
    : null;
const started = await startBrowser();
for (const what of words.length > 0 ? words : ["1000000"]) {
    const count = Number(what);
    const url = count > 0 ? started.write(`n${count}`, makeSyntheticPage(count, ["noise"])) : pathToFileURL(what).href;
    const rows = await measure(started.browser, url);
    if (form) printRows(form, rows);
    else printTable(count > 0 ? `${count} allocations` : what, rows);
}
await started.close();
