/** The ranks of a job: their charts, and opening one. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { areaPath, rangesText, rankOfHash } from "../../viewer/ranks.js";
import { violations } from "./axe.mjs";
import { settle, startBrowser } from "./browser.mjs";
import { withOpened } from "./hands.mjs";
import { makeJob, makeRank } from "./job.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const MANY = 1000;

let started;
const urls = {};
const data = makeJob();

before(async () => {
    started = await startBrowser();
    urls.job = started.write("job", data);
    const many = Array.from({ length: MANY }, (_, rank) =>
        makeRank(rank, 4096 * (MANY - rank), { bytes: Array.from({ length: 256 }, (_, i) => i * rank) }),
    );
    const job = { job: "", place: ".", shown: 0, missing: [], ranks: many };
    urls.many = started.write("many", { ...makeSyntheticPage(300, ["small"]), job });
    urls.alone = started.write("alone", makeSyntheticPage(300, ["small"]));
});
after(() => started.close());

const withPage = (name, options, body) => withOpened(started, urls[name], options, body);
const peakOf = (page) => page.runs[0].info.peaks.allocated.bytes;
const openedPeak = (page) => page.getAttribute("#moment-sizes tr:first-child td", "data-bytes").then(Number);

/** Clicks a rank, and waits until the page shows it. */
async function openRank(page, rank) {
    const loaded = page.waitForEvent("load");
    await page.getByRole("link", { name: `rank ${rank}`, exact: true }).click();
    await loaded;
    await page.waitForSelector('#page[data-complete="true"]');
    await page.waitForSelector("#ranks:not([hidden])");
}

test("ranges and ranks are spelled and read as people write them", () => {
    assert.equal(rangesText([0, 1, 2, 3, 7]), "0–3, 7");
    assert.equal(rangesText([4]), "4");
    assert.equal(rangesText([0, 2, 4, 6, 8, 10]), "0, 2, 4, …, 10");
    assert.equal(rankOfHash("#x=time&rank=3"), "3");
    for (const hash of ["", "#", "#rank=", "#rank=-1", "#rank=1e3", "#rank=a"]) assert.equal(rankOfHash(hash), "");
});

test("an area has each bin at its place, and ends with its run", () => {
    const rank = { bin: 1024, bytes: [0, 50, 100] };
    const job = { length: 4096, most: 100 };
    assert.equal(areaPath(rank, job), "M0.0 100V100.0H250.0V50.0H500.0V0.0H750.0V100Z");
    assert.equal(areaPath(rank, job, 2), "M500.0 100V0.0H750.0V100Z");
    assert.equal(areaPath(rank, { ...job, length: 2560 }), "M0.0 100V100.0H400.0V50.0H800.0V0.0H1000.0V100Z");
});

test("the page lists the ranks, the highest first, those that are alike folded", () =>
    withPage("job", {}, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        assert.equal(
            await page.textContent("#ranks-title"),
            "5 ranks of train, the highest peak first; no trace of rank 4",
        );
        assert.match(await page.textContent("#ranks-axis"), /0 to 8\.000 µs, and 0 to 4\.00 KiB/);
        const rows = page.locator(".rank");
        assert.deepEqual(await rows.evaluateAll((all) => all.map((row) => row.children[0].textContent)), [
            "rank 5",
            "rank 0",
            "rank 2",
        ]);
        assert.match(
            await rows.nth(0).textContent(),
            /4\.00 KiB.*step 1, backward, model\.layers\.7.*\+2\.00 KiB than the median, \+1\.00 KiB Loss/,
        );
        assert.match(await rows.nth(1).textContent(), /killed · node<b>2<\/b>/);
        assert.equal(await page.textContent("#ranks summary"), "2 ranks are alike: 1, 3");
        await page.click("#ranks summary");
        await settle(page);
        assert.equal(await rows.count(), 5);
        assert.equal(await page.locator(".rank svg path.peak").count(), 5);
    }));

test("a rank is opened, its link keeps it, and back goes to the one before", () =>
    withPage("job", {}, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        assert.equal(await openedPeak(page), peakOf(data));
        assert.equal(await page.textContent(".rank [aria-current]"), "rank 5");
        await openRank(page, 0);
        assert.equal(await openedPeak(page), peakOf(data.others[0]));
        assert.equal(await page.textContent(".rank [aria-current]"), "rank 0");
        await page.keyboard.press("p");
        await page.waitForFunction(() => location.hash.includes("rank=0") && location.hash.includes("from="));
        await page.reload();
        await page.waitForSelector('#page[data-complete="true"]');
        assert.equal(await openedPeak(page), peakOf(data.others[0]));
        await page.waitForSelector("#ranks:not([hidden])");
        await openRank(page, 5);
        assert.equal(await openedPeak(page), peakOf(data));
        const loaded = page.waitForEvent("load");
        await page.evaluate(() => history.back());
        await loaded;
        await page.waitForSelector('#page[data-complete="true"]');
        assert.equal(await openedPeak(page), peakOf(data.others[0]));
    }));

test("a rank is opened although the view has just changed", () =>
    withPage("job", {}, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        const loaded = page.waitForEvent("load");
        await page.evaluate(async () => {
            const link = [...document.querySelectorAll(".rank a")].find(({ textContent }) => textContent === "rank 0");
            document.getElementById("to-peak").click();
            await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
            setTimeout(() => link.click(), 50); // and then, before the page knows of it, the address is to be updated
            const end = performance.now() + 300;
            while (performance.now() < end);
        });
        await loaded;
        await page.waitForSelector('#page[data-complete="true"]');
        assert.equal(await openedPeak(page), peakOf(data.others[0]));
    }));

test("a rank inside of a fold is shown when it is the one that is open", () =>
    withPage("job", { hash: "#rank=3" }, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        assert.equal(await openedPeak(page), peakOf(data.others[3]));
        assert.equal(await page.textContent(".rank [aria-current]"), "rank 3");
        assert.equal(await page.isVisible(".rank [aria-current]"), true);
    }));

test("of a rank that is not on the page, the command is copied; its link shows the first", () =>
    withPage("job", { hash: "#rank=2" }, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        assert.equal(await openedPeak(page), peakOf(data));
        assert.ok(!page.url().includes("rank=2"));
        await page.getByRole("button", { name: "rank 2" }).click();
        await settle(page);
        assert.equal(await page.textContent("#command-text"), "memtrace timeline --run rank2 --trace 'my traces'");
    }));

test("a thousand ranks are listed at once, and a page of one run has no list", async () => {
    await withPage("many", {}, async (page) => {
        await page.waitForSelector("#ranks:not([hidden])");
        assert.equal(await page.locator(".rank").count(), MANY);
        const { height } = await page.locator("#ranks").boundingBox();
        assert.ok(height < 260, `${height}`);
        await page.locator(".rank").last().scrollIntoViewIfNeeded();
        assert.equal(await page.locator(".rank").last().isVisible(), true);
    });
    await withPage("alone", {}, async (page) => assert.equal(await page.isHidden("#ranks"), true));
});

for (const scheme of ["light", "dark"])
    test(`axe finds nothing, ${scheme}`, () =>
        withPage("job", { scheme }, async (page) => {
            await page.waitForSelector("#ranks:not([hidden])");
            await page.click("#ranks summary");
            await settle(page);
            assert.deepEqual(await violations(page), []);
        }));
