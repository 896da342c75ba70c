/**
 * Prints how large and how fast a page is: node measure.mjs [ALLOCATIONS | PAGE.html] …
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

async function measure(browser, url) {
    const rows = [["file", `${(statSync(fileURLToPath(url)).size / 1e6).toFixed(2)} MB`, "10 MB"]];
    const page = await openPage(browser, url);
    const first = await stateOf(page);
    rows.push(["first picture", `${Number(first.firstMs).toFixed(0)} ms`, "1000 ms"]);
    rows.push(["heap", `${((await heapOf(page)) / 1e6).toFixed(0)} MB`, "200 MB"]);
    const full = await measureFrames(page);
    rows.push(["frame, full view", `${full.own.toFixed(1)} ms, shown every ${full.shown.toFixed(1)} ms`, "33 ms"]);
    const hits = await measureHits(page);
    rows.push(["hit test", `${hits.median.toFixed(2)} ms, at worst ${hits.worst.toFixed(2)} ms`, "1 ms"]);
    await page.goto(`${url}#x=time&from=${first.length * 0.45}&to=${first.length * 0.55}`);
    await settle(page);
    const tenth = await measureFrames(page);
    rows.push(["frame, a tenth", `${tenth.own.toFixed(1)} ms, shown every ${tenth.shown.toFixed(1)} ms`, "8 ms"]);
    await page.context().close();
    return rows;
}

const started = await startBrowser();
for (const what of process.argv.length > 2 ? process.argv.slice(2) : ["1000000"]) {
    const count = Number(what);
    const url = count > 0 ? started.write(`n${count}`, makeSyntheticPage(count, ["noise"])) : pathToFileURL(what).href;
    console.log(count > 0 ? `${count} allocations` : what);
    for (const [name, value, target] of await measure(started.browser, url))
        console.log(`  ${name.padEnd(18)} ${value.padEnd(40)} target ${target}`);
}
await started.close();
