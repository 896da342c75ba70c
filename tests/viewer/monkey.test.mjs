/**
 * Random keys, clicks, turns and drags, in any order: the page reports no errors, its view stays inside of its axis, and
 * its hash shows the same to another reader. `SEED=…` repeats a run.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { numbers, pointOf, withOpened } from "./hands.mjs";
import { makeRandom } from "./random_run.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const draw = makeRandom();
const KEYS = [..."adws+-0p,.xbctq/", "ArrowLeft", "ArrowUp", "ArrowDown", "Escape", "Enter", "Tab", "Shift+Enter", "?"];
const CHARTS = ["#minimap", "#bars", "#area-0", "#map", "#difference", "#area-1"];
const BUTTONS = ["#legend button", "#live button", "#twins button", "#show-twins", "#depths", "#results button"];
const ROUNDS = 2;
const ACTIONS = 40;

let started;
const urls = {};

before(async () => {
    started = await startBrowser();
    for (const [name, count, words] of [
        ["one", 1200, ["small", "kernels", "deep", "hostile"]],
        ["two", 900, ["small", "diff"]],
        ["oom", 300, ["small", "oom"]],
        ["empty", 0, ["empty"]],
    ])
        urls[name] = started.write(name, makeSyntheticPage(count, words));
});
after(() => started.close());

const of = (list) => list[draw(list.length)];

/** Returns a point of a chart, which may be beside its plot. */
async function somewhere(page) {
    const chart = of(CHARTS);
    if (!(await page.isVisible(chart))) return [700, 300];
    return pointOf(page, chart, (draw(120) - 10) / 100, draw(100) / 100);
}

async function drag(page) {
    if (draw(3) === 0) await page.keyboard.down("Shift");
    await page.mouse.move(...(await somewhere(page)));
    await page.mouse.down();
    await page.mouse.move(...(await somewhere(page)), { steps: 3 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
}

async function turn(page) {
    await page.mouse.move(...(await somewhere(page)));
    if (draw(3) === 0) await page.keyboard.down("Alt");
    await page.mouse.wheel(draw(600) - 300, draw(2000) - 1000);
    await page.keyboard.up("Alt");
}

/** Waits first, since an earlier action may be about to hide some. */
async function pressButton(page) {
    await settle(page);
    const buttons = await page.locator(of(BUTTONS)).all();
    const button = buttons.length > 0 ? of(buttons) : null;
    if (button && (await button.isVisible())) await button.click();
}

const choose = (page, id) =>
    page.evaluate(
        ([id, part]) => {
            const select = document.getElementById(id);
            select.value = select.options[Math.floor(part * select.options.length)].value;
            select.dispatchEvent(new Event("change"));
        },
        [id, draw(1000) / 1000],
    );

const ACTS = [
    (page) => page.keyboard.press(of(KEYS)),
    (page) => page.keyboard.press(of(KEYS)),
    (page) => page.keyboard.press(of(KEYS)),
    async (page) => page.mouse.click(...(await somewhere(page))),
    async (page) => page.mouse.dblclick(...(await somewhere(page))),
    async (page) => page.mouse.move(...(await somewhere(page))),
    drag,
    turn,
    pressButton,
    (page) => choose(page, "axis"),
    (page) => choose(page, "map-run"),
];

/** Does one of the actions. No dialog may be open, since that takes all keys and clicks. */
async function act(page) {
    await of(ACTS)(page);
    await page.evaluate(() => document.getElementById("keys").close());
}

/**
 * Returns the state that a link restores: all but the twins that are shown, and the copied command.
 */
const told = (page) =>
    page.evaluate(() => {
        const text = (id) => document.getElementById(id).textContent;
        const shown = (id) => (document.getElementById(id).hidden ? "" : text(id));
        return {
            moment: ["moment-title", "moment-where", "moment-sizes", "live-title", "live"].map(text),
            panels: [shown("block"), shown("bar")],
            found: [text("found"), document.getElementById("search").value],
            pressed: [...document.querySelectorAll("#legend [aria-pressed=true]")].map((each) => each.textContent),
            depths: document.getElementById("depths").getAttribute("aria-pressed"),
        };
    });

for (const name of ["one", "two", "oom", "empty"])
    test(`nothing that is done to the page breaks it: ${name}`, () =>
        withOpened(started, urls[name], { width: 900 + draw(600), height: 500 + draw(500) }, async (page) => {
            for (let round = 0; round < ROUNDS; round++) {
                for (let i = 0; i < ACTIONS; i++) await act(page);
                await settle(page);
                const shown = await numbers(page);
                assert.ok(shown.from >= 0 && shown.from < shown.to && shown.to <= shown.length, JSON.stringify(shown));
                assert.ok(shown.low >= 0 && shown.low < shown.high, JSON.stringify(shown));
                await page.waitForTimeout(250);
                const hash = await page.evaluate(() => location.hash);
                const before = await told(page);
                await withOpened(started, urls[name], { hash }, async (other) => {
                    assert.deepEqual(await numbers(other), shown, hash);
                    assert.deepEqual(await told(other), before, hash);
                });
            }
        }));
