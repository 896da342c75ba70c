/** Actions of a person on a page, and the values that the page shows: keys, clicks and numbers. */
import assert from "node:assert/strict";
import { settle, stateOf } from "./browser.mjs";

/** Runs `body` with an opened page, and checks that there were no problems. */
export async function withOpened(started, url, options, body) {
    const page = await started.open(url, options);
    try {
        await body(page);
        assert.deepEqual(page.problems, []);
    } finally {
        await page.context().close();
    }
}

/** Returns the numeric data attributes of #page. */
export async function numbers(page) {
    const state = await stateOf(page);
    return {
        from: Number(state.from),
        to: Number(state.to),
        length: Number(state.length),
        low: Number(state.low),
        high: Number(state.high),
        selected: Number(state.selected),
        moments: state.moments.split(",").map(Number),
        axis: state.axis,
    };
}

export async function press(page, ...keys) {
    for (const key of keys) await page.keyboard.press(key);
    await settle(page);
}

/** Returns a point of a chart, by fractions of the box between its margins (plot.js); scrolls to a chart that is not in view. */
export async function pointOf(page, selector, x, y) {
    await page.locator(selector).evaluate((chart) => chart.scrollIntoView({ block: "nearest" }));
    const box = await page.locator(selector).boundingBox();
    return [box.x + 78 + x * (box.width - 90), box.y + y * box.height];
}

export async function clickAt(page, selector, x, y) {
    await page.mouse.click(...(await pointOf(page, selector, x, y)));
    await settle(page);
}

/** Returns the bytes by category in the legend. */
export const legendOf = (page) =>
    page.evaluate(() =>
        Object.fromEntries(
            [...document.querySelectorAll("#legend button")].map((button) => [
                button.children[1].textContent,
                Number(button.dataset.bytes),
            ]),
        ),
    );

/** Returns the texts of a panel, by name. */
export const factsOf = (page, selector) =>
    page
        .locator(`${selector} dt`)
        .evaluateAll((all) => Object.fromEntries(all.map((dt) => [dt.textContent, dt.nextSibling.textContent])));
