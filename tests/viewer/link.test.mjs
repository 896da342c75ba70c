/**
 * Links: the hash of a page's address shows the same to another reader, and values that do not fit the page are
 * ignored.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { clickAt, numbers, press, withOpened } from "./hands.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

let started;
const urls = {};

before(async () => {
    started = await startBrowser();
    const odd = makeSyntheticPage(600, ["small"]);
    // Three hours and a little: such times have more digits than a picture needs.
    const { time } = odd.runs[0].tables.events;
    odd.runs[0].tables.events.time = time.map((each) => Math.round((each / time.at(-1)) * 11234567890126));
    urls.one = started.write("one", makeSyntheticPage(3000, ["small", "kernels"]));
    urls.two = started.write("two", makeSyntheticPage(1500, ["small", "diff"]));
    urls.odd = started.write("odd", odd);
});
after(() => started.close());

const withPage = (name, options, body) => withOpened(started, urls[name], options, body);

/** Returns the page's hash after the last change. */
async function hashOf(page) {
    await page.waitForTimeout(250);
    return page.evaluate(() => location.hash);
}

test("back and forward go through what was chosen, and not through turns of the wheel", () =>
    withPage("one", {}, async (page) => {
        const titleOf = () => page.textContent("#moment-title");
        await hashOf(page);
        await clickAt(page, "#area-0", 0.3, 0.5);
        await hashOf(page);
        await press(page, "w", "w");
        await hashOf(page);
        await page.click("#legend button >> nth=1");
        assert.match(await hashOf(page), /only=/);
        await page.goBack();
        await settle(page);
        assert.doesNotMatch(await hashOf(page), /only=/);
        assert.equal(await titleOf(), "At the pinned moment");
        await page.goBack();
        await settle(page);
        assert.equal(await titleOf(), "At the peak");
        await page.goForward();
        await settle(page);
        assert.equal(await titleOf(), "At the pinned moment");
    }));

test("a measured range is in the link", () =>
    withPage("one", {}, async (page) => {
        const { length } = await numbers(page);
        await goTo(page, `#range=${0.2 * length},${0.5 * length}`);
        assert.match(await page.textContent("#measure"), /allocations, of which/);
        assert.match(await hashOf(page), /range=/);
        await goTo(page, `#range=-1,${2 * length}`);
        assert.equal(await page.textContent("#measure"), "");
    }));

/** Changes the hash of an open page, as pasting a link does. */
async function goTo(page, hash) {
    await page.evaluate((text) => {
        location.hash = text;
    }, hash);
    await settle(page);
}

test("a link that is pasted just after a change is not overwritten by it", () =>
    withPage("one", {}, async (page) => {
        const { length } = await numbers(page);
        await press(page, "w");
        await page.evaluate((hash) => {
            setTimeout(() => {
                location.hash = hash;
            }, 10); // runs just before the page's own timer, since both are due once the loop has ended
            for (const begin = performance.now(); performance.now() - begin < 300;);
        }, `#range=0,${length}`);
        await settle(page);
        assert.match(await hashOf(page), /range=/);
    }));

test("the hash brings another reader to the same view", () =>
    withPage("one", {}, async (page) => {
        await press(page, "w", "w", "x");
        await clickAt(page, "#map", 0.6, 0.97);
        await page.click('#legend button:has-text("parameter")');
        await page.selectOption("#group-key", "module");
        const hash = await hashOf(page);
        assert.match(hash, /only=parameter/);
        const before = await numbers(page);
        await withPage("one", { hash }, async (other) => {
            assert.deepEqual(await numbers(other), before);
            assert.equal(await other.getAttribute('#legend button:has-text("parameter")', "aria-pressed"), "true");
            assert.equal(await other.inputValue("#group-key"), "module");
        });
    }));

test("a view of a long run comes back to the nanosecond, also at the run's end", () =>
    withPage("odd", {}, async (page) => {
        await goTo(page, "x=time&from=11234567889000&to=11234567890126");
        const before = await numbers(page);
        assert.deepEqual([before.from, before.to], [11234567889000, 11234567890126]);
        await press(page, "s", "w");
        const moved = await numbers(page);
        await withPage("odd", { hash: await hashOf(page) }, async (other) => {
            assert.deepEqual(await numbers(other), moved);
        });
    }));

test("what fits no page is left out", async () => {
    for (const hash of [
        "#x=sideways&from=9e99&to=-1&at=77777777&block=1e9&only=None&q=%00",
        "#from=&to=&low=&high=&at=&block=&map=&bar=",
        "#map=0.5&block=0.5&at=1.5&bar=0.5,0.5",
        "#low=1&high=NaN&at=Infinity&map=-1&bar=constructor,length",
    ])
        await withPage("one", { hash }, async (page) => {
            const state = await numbers(page);
            assert.deepEqual([state.axis, state.from, state.to, state.selected], ["time", 0, state.length, -1], hash);
            assert.equal(await page.textContent("#moment-title"), "At the peak", hash);
        });
});

test("a range that nobody could look at is shown as the least that one can", () =>
    withPage("one", { hash: "#x=event&from=100&to=100.001" }, async (page) => {
        const { from, to } = await numbers(page);
        assert.equal(to - from, 4);
        assert.ok(from < 100 && to > 100);
    }));

test("a link that is pasted into an open page shows all that it shows in a new one", () =>
    withPage("two", {}, async (page) => {
        const link = await hashOf(page);
        const first = await numbers(page);
        await page.selectOption("#map-run", "1");
        await press(page, "w", "w");
        await clickAt(page, "#map", 0.6, 0.97);
        if (await page.isVisible("#show-twins")) await page.click("#show-twins");
        await clickAt(page, "#area-0", 0.3, 0.5);
        assert.equal(await page.textContent("#moment-title"), "At the pinned moment");
        assert.notEqual(await hashOf(page), link); // written by now: the same link again would be no news
        await goTo(page, link.slice(1));
        assert.deepEqual(await numbers(page), first);
        assert.equal(await page.textContent("#moment-title"), "At the peak");
        assert.equal(await page.inputValue("#map-run"), "0");
    }));
