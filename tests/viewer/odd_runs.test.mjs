/** Unusual runs: no duration, one block, an end at the peak, lost events, strange names, different lengths. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { clickAt, numbers, pointOf, press, withOpened } from "./hands.mjs";
import { Recording, Texts } from "./recording.mjs";
import { CATEGORIES, makePage, makeRun, PHASES } from "./synthetic.mjs";

let started;

before(async () => {
    started = await startBrowser();
});
after(() => started.close());

const LABEL = { role: "temporary", op: "take", dtype: "fp32", shape: "4", span: "", phase: "" };
const MIB = 2 ** 20;

/** Opens the page of a run that `record` writes, with some changes to its description. */
async function withRun(name, record, body, { categories = CATEGORIES, tick = () => 1000, info = {}, hash = "" } = {}) {
    const texts = new Texts();
    const recording = new Recording(texts, categories, PHASES, tick);
    record(recording);
    const page = { ...makePage([recording.finish(info)], texts), categories };
    await withOpened(started, started.write(name, page), { hash }, body);
}

test("a run of one block, whose peak is its last event, shows it", () =>
    withRun(
        "one-block",
        (recording) => recording.alloc(3 * MIB, { ...LABEL, category: "Param" }),
        async (page) => {
            assert.match(await page.textContent("#answer"), /^Peak: 3\.00 MiB.*3\.00 MiB allocated at the peak/);
            assert.equal(await page.textContent("#live-title"), "1 block live, largest first");
            await page.mouse.move(...(await pointOf(page, "#area-0", 0.9999, 0.5)));
            assert.match(await page.textContent("#tip"), /^3\.00 MiB allocated/);
            await press(page, "w", "s", "x", "x", "x", "p", ",", ".");
            await clickAt(page, "#live button", 0, 0.5);
        },
    ));

test("a run whose events all have one time is shown by event number", () =>
    withRun(
        "no-time",
        (recording) => {
            const first = recording.alloc(MIB, { ...LABEL, category: "Param" });
            recording.alloc(2 * MIB, { ...LABEL, category: "Data" });
            recording.free(first);
        },
        async (page) => {
            assert.equal((await numbers(page)).axis, "event");
            await page.mouse.move(...(await pointOf(page, "#area-0", 0.6, 0.5)));
            assert.match(await page.textContent("#tip"), /^3\.00 MiB allocated/);
        },
        { tick: () => 0 },
    ));

test("categories may have the names of what every object has", () => {
    const categories = ["constructor", "__proto__", "toString"];
    return withRun(
        "prototype",
        (recording) => categories.forEach((category) => recording.alloc(MIB, { ...LABEL, category })),
        async (page) => {
            const names = await page.locator("#legend button span:nth-child(2)").allTextContents();
            assert.deepEqual(names.sort(), [...categories].sort());
        },
        { categories, hash: "#color=category" },
    );
});

test("a run that lost events says so, and how many", () =>
    withRun(
        "lost",
        (recording) => recording.alloc(MIB, { ...LABEL, category: "Param" }),
        async (page) =>
            assert.match(
                await page.textContent('#answer [role="alert"]'),
                /1,234 events of run 1 could not be stored: their memory is missing here\./,
            ),
        { info: { lost_events: 1234 } },
    ));

test("a request too large for the page's numbers is told as more than what they hold", () =>
    withRun(
        "huge",
        (recording) => recording.outOfMemory(2 ** 48 - 1, "model", { ...LABEL, category: "Data" }),
        async (page) =>
            assert.match(await page.textContent("#answer"), /Out of memory: 256\.00 TiB or more for Data \(take\)/),
    ));

/** Returns the box of each text that an area draws: { text, left, right, y }. */
const textsOfArea = (page) =>
    page.evaluate(() => {
        const context = document.getElementById("area-0").getContext("2d");
        const boxes = [];
        const fillText = context.fillText.bind(context);
        context.fillText = (text, x, y) => {
            if (context.textAlign === "left")
                boxes.push({ text, left: x, right: x + context.measureText(text).width, y });
            fillText(text, x, y);
        };
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "t" })); // draws anew
        return new Promise((resolve) => {
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(boxes)));
        });
    });

test("the labels of the peak and of a small refusal at it are next to each other", () =>
    withRun(
        "refused-at-peak",
        (recording) => {
            for (let i = 0; i < 60; i++) recording.phase("init");
            recording.alloc(900 * MIB, { ...LABEL, category: "Param" });
            recording.outOfMemory(MIB, "model", { ...LABEL, category: "Data" });
        },
        async (page) => {
            const boxes = await textsOfArea(page);
            const [peak, refused] = [/^peak 900\.00 MiB$/, /^1\.00 MiB refused$/].map(
                (words) => boxes.find(({ text }) => words.test(text)) ?? assert.fail(JSON.stringify(boxes)),
            );
            assert.ok(Math.abs(peak.y - refused.y) < 16, "on one line");
            assert.ok(peak.right < refused.left || refused.right < peak.left, JSON.stringify([peak, refused]));
        },
        { info: { state: "oom" } },
    ));

test("a run that reserves most at another moment than its peak says what is reserved at both", () =>
    withRun(
        "reserved-later",
        (recording) => {
            recording.free(recording.alloc(600 * MIB, { ...LABEL, category: "Param" }));
            recording.alloc(400 * MIB, { ...LABEL, category: "Data" }); // in a segment of its own
        },
        async (page) => {
            assert.match(
                await page.textContent("#answer"),
                /600\.00 MiB allocated at the peak; 600\.00 MiB reserved then, 1000\.00 MiB reserved at most\./,
            );
            const key = await page.locator(".card-key li").allTextContents();
            assert.deepEqual(key.slice(0, 2), ["temporary 600.00 MiB", "reserved at other times 400.00 MiB"]);
        },
    ));

test("the page's title names its runs", () =>
    withRun(
        "titled",
        (recording) => recording.alloc(MIB, { ...LABEL, category: "Param" }),
        async (page) => assert.equal(await page.title(), "<b>night</b> · memtrace"),
        { info: { name: "<b>night</b>" } },
    ));

test("of two runs the shorter one is over where the other goes on", async () => {
    const texts = new Texts();
    const options = { layers: 4, allocations: 400 };
    const runs = [
        makeRun(texts, { ...options, name: "short" }),
        makeRun(texts, { ...options, allocations: 2400, id: 2, name: "long", seed: 2 }),
    ];
    const url = started.write("unlike", makePage(runs, texts));
    await withOpened(started, url, {}, async (page) => {
        for (const axis of ["time", "event", "phase"]) {
            await page.selectOption("#axis", axis);
            await page.mouse.move(...(await pointOf(page, "#area-0", 0.9, 0.5)));
            await settle(page);
            assert.match(await page.textContent("#tip"), /^0 B allocated\nafter the end of the run$/, axis);
            await clickAt(page, "#area-1", 0.9, 0.5);
            assert.equal(await page.textContent("#moment-where"), "after the end of the run", axis);
            const cells = await page.locator("#moment-sizes tr:nth-child(2) td").allTextContents();
            assert.equal(cells[0], "0 B");
            assert.notEqual(cells[1], "0 B");
            await press(page, ",");
            assert.equal((await numbers(page)).moments[0], runs[0].info.event_count - 1, axis);
        }
        await page.waitForTimeout(250);
        await clickAt(page, "#area-1", 0.9, 0.5);
        await page.waitForTimeout(250);
        const hash = await page.evaluate(() => location.hash);
        const { moments } = await numbers(page);
        await withOpened(started, url, { hash }, async (other) =>
            assert.deepEqual((await numbers(other)).moments, moments),
        );
    });
});

test("before the first event there is no event yet", () =>
    withRun(
        "before",
        (recording) => recording.alloc(MIB, { ...LABEL, category: "Param" }),
        async (page) => {
            await press(page, ",", ",", ",");
            assert.equal(await page.textContent("#moment-where"), "before the first event");
        },
    ));
