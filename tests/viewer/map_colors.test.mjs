/** The address map in a browser: the colour of any place names the role, or category, of what lies there. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { settle, startBrowser, stateOf } from "./browser.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const PLACES = 500;

let started;
let url;
before(async () => {
    started = await startBrowser();
    url = started.write("page", makeSyntheticPage(60000, ["noise"]));
});
after(() => started.close());

/**
 * Points at places of the map. Returns of each the name in the legend whose colour is nearest to the pixel, and the role or category
 * that the page names: that of the block, "cached", or "unmapped".
 */
function namesAt(page, places) {
    return page.evaluate((count) => {
        const map = document.getElementById("map");
        const box = map.getBoundingClientRect();
        const scale = map.width / box.width;
        const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
        const legend = [...document.querySelectorAll("#legend li")].map((entry) => {
            const canvas = entry.querySelector("canvas");
            const name = entry.querySelector("span:not(.surface)").textContent;
            if (!canvas) {
                const color = getComputedStyle(entry.querySelector(".surface")).backgroundColor;
                return [name, color.match(/\d+/g).map(Number)];
            }
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const counts = new Map();
            for (let i = 0; i < pixels.length; i += 4) {
                const key = [...pixels.slice(i, i + 3)].join();
                counts.set(key, (counts.get(key) ?? 0) + 1);
            }
            return [
                name,
                [...counts]
                    .sort((a, b) => b[1] - a[1])[0][0]
                    .split(",")
                    .map(Number),
            ];
        });
        const distance = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));
        return Array.from({ length: count }, () => {
            const left = 78 + Math.floor(Math.random() * (box.width - 90));
            const top = Math.floor(Math.random() * Math.floor(box.height));
            const at = (Math.floor((top + 0.5) * scale) * map.width + Math.floor((left + 0.5) * scale)) * 4;
            const rgb = [...data.slice(at, at + 3)];
            const [shown] = legend.reduce((best, each) =>
                distance(each[1], rgb) < distance(best[1], rgb) ? each : best,
            );
            const place = { clientX: box.left + left + 0.5, clientY: box.top + top + 0.5, bubbles: true };
            map.dispatchEvent(new PointerEvent("pointermove", place));
            const tip = document.getElementById("tip");
            const said = tip.hidden ? "unmapped" : tip.textContent.split("\n").at(-1).split(/:| · /)[0];
            return { shown, said, where: `${left}, ${top}: ${rgb}` };
        });
    }, places);
}

for (const [what, part, key] of [
    ["the whole run", 1, "role"],
    ["a tenth", 0.1, "category"],
    ["a part with large blocks", 0.02, "role"],
])
    for (const scheme of ["light", "dark"])
        test(`at ${PLACES} places of the map the colour is that of what is there: ${what}, ${scheme}`, async (t) => {
            const page = await started.open(url, { scheme });
            const { length } = await stateOf(page);
            await page.goto(`${url}#x=time&color=${key}&from=${length * 0.4}&to=${length * (0.4 + 0.6 * part)}`);
            await settle(page);
            assert.equal(await page.inputValue("#color-key"), key);
            const found = await namesAt(page, PLACES);
            const wrong = found.filter(({ shown, said }) => shown !== said);
            t.diagnostic(`${wrong.length} of ${PLACES} places have the colour of another ${key}`);
            assert.deepEqual(wrong, []);
            assert.ok(new Set(found.map(({ said }) => said)).size > 3);
            await page.context().close();
        });
