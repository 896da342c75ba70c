/**
 * Pages of the program, with runs of its own: they agree with `memtrace peak` and `memtrace diff` to the byte, make no
 * requests, report no errors, and axe-core reports no violations.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { violations } from "./axe.mjs";
import { settle, startBrowser } from "./browser.mjs";
import { changeText, sizeText } from "../../viewer/numbers.js";
import { ask, makeStrangeTrace, memtrace, MEMTRACE, simulate, STRANGE_TRACE, writeTimeline } from "./program.mjs";

const skip = MEMTRACE && STRANGE_TRACE ? false : "MEMTRACE and STRANGE_TRACE name no programs";
const AUTOCAST = ["--autocast", "bf16"];
/** The allocator of the runs. Without it, memtrace advise replays them with PyTorch's. */
const OWN = ["--alloc", "policy=tight"];
let started;
const urls = {};

function makePages(folder) {
    simulate(folder, "baseline", []);
    simulate(folder, "autocast", AUTOCAST);
    simulate(folder, "oom", ["--device", "sim:24GiB"], 5);
    simulate(folder, "empty", ["--device", "sim:1MiB"], 5);
    makeStrangeTrace(folder, "strange.db");
    urls.baseline = writeTimeline(folder, "baseline", ["--run", "baseline"]);
    urls.diff = writeTimeline(folder, "diff", ["--run", "baseline", "--diff", "autocast"]);
    urls.back = writeTimeline(folder, "back", ["--run", "autocast", "--diff", "memtrace.db:baseline"]);
    urls.traces = writeTimeline(folder, "traces", ["--run", "baseline", "--diff", "strange.db:"]);
    urls.oom = writeTimeline(folder, "oom", ["--run", "oom"]);
    urls.empty = writeTimeline(folder, "empty", ["--run", "empty"]);
    urls.strange = writeTimeline(folder, "strange", ["--trace", "strange.db"]);
}

before(async () => {
    if (skip) return;
    started = await startBrowser();
    makePages(started.folder);
});
after(() => started?.close());

/** Runs `body` with an opened page, and checks that there were no problems. */
async function withPage(name, body, options = {}) {
    const page = await started.open(urls[name], options);
    try {
        assert.equal(await page.getAttribute("#page", "data-state"), "ready");
        await body(page);
        assert.deepEqual(page.problems, []);
    } finally {
        await page.context().close();
    }
}

const legendOf = (page) =>
    page
        .locator("#legend button")
        .evaluateAll((all) => all.map((each) => [each.children[1].textContent, Number(each.dataset.bytes)]))
        .then((entries) => Object.fromEntries(entries.filter(([, bytes]) => bytes > 0)));

/** Returns the table of the pinned moment: a row for each run. */
const momentOf = (page, name) =>
    page
        .locator(`#moment-sizes tr:has(th:text-is("${name}")) td`)
        .evaluateAll((all) => all.map((cell) => Number(cell.dataset.bytes)));

const exact = (bytes) => `${bytes.toLocaleString("en-US")} bytes`;

/** Checks the page's first picture against `memtrace peak --json`. */
async function expectPeak(page, peak) {
    assert.deepEqual(
        await legendOf(page),
        Object.fromEntries(peak.rows.map(({ role, allocated_bytes: bytes }) => [role, bytes])),
    );
    assert.deepEqual(await momentOf(page, "allocated"), [peak.allocated_bytes]);
    assert.deepEqual(
        await page
            .locator("#groups tr")
            .evaluateAll((all) =>
                all.map((row) => [row.children[0].textContent, Number(row.children[1].dataset.bytes)]),
            ),
        peak.by_category.map(({ category, allocated_bytes: bytes }) => [category, bytes]),
    );
    const answer = await page.textContent("#answer");
    assert.ok(answer.includes(exact(peak.allocated_bytes)), answer);
    assert.equal(await page.locator('#answer [role="alert"]').count(), 0);
    const blocks = peak.by_category.reduce((sum, share) => sum + share.blocks, 0);
    assert.match(await page.textContent("#live-title"), new RegExp(`^${blocks.toLocaleString("en-US")} blocks live`));
}

test("the sums of the 2.7B model are those of memtrace peak", { skip }, () =>
    withPage("baseline", async (page) => {
        const peak = ask(started.folder, "peak", "--run", "baseline");
        await expectPeak(page, peak);
        assert.match(
            await page.textContent("#answer"),
            new RegExp(`step ${peak.allocated.step}, ${peak.allocated.phase}`),
        );
        assert.match(await page.textContent("#moment-where"), new RegExp(peak.allocated.phase));
    }),
);

test("of a run out of memory, too, and what could not be had is said", { skip }, () =>
    withPage("oom", async (page) => {
        await page.keyboard.press("p");
        await settle(page);
        await expectPeak(page, ask(started.folder, "peak", "--run", "oom"));
        const [refused] = ask(
            started.folder,
            "sql",
            "SELECT requested_bytes AS bytes, label.op, category, path FROM event JOIN label ON label.run = :run AND " +
                "label.id = label JOIN span ON span.run = :run AND span.id = label.span WHERE kind = 4",
            "--run",
            "oom",
        ).rows;
        assert.ok(refused, "there is one");
        const answer = await page.textContent("#answer");
        assert.match(answer, /^Out of memory: .* short.* could not be allocated/s);
        for (const part of refused.slice(1)) assert.ok(answer.includes(part), `${part} in ${answer}`);
    }),
);

for (const [width, height] of [
    [1440, 900],
    [1024, 768],
    [390, 844],
])
    test(`at ${width}x${height} the verdict and the first remedy are on the first screen`, { skip }, async () => {
        for (const name of ["oom", "baseline"])
            await withPage(
                name,
                async (page) => {
                    const bottom = async (selector) => {
                        const box = await page.locator(selector).boundingBox();
                        return box.y + box.height;
                    };
                    for (const selector of ["#verdict-title", "#remedy", ...(name === "oom" ? ["#verdict"] : [])])
                        assert.ok((await bottom(selector)) <= height, `${name}: ${selector}`);
                    const blank = await page.evaluate(() => {
                        const parts = [...document.querySelectorAll("main, aside, #live-blocks")];
                        const end = Math.max(...parts.map((part) => part.getBoundingClientRect().bottom));
                        return document.documentElement.scrollHeight - end - window.scrollY;
                    });
                    assert.ok(blank < 20, `${name}: ${blank} pixels below the content`);
                },
                { width, height },
            );
    });

test(
    "the first remedy of a run that fits is what memtrace advise prints first, compared with the run as it was",
    { skip },
    () =>
        withPage("baseline", async (page) => {
            const [first] = memtrace(started.folder, ["advise", "--run", "baseline", ...OWN]).split("\n→ ");
            const remedy = await page.textContent("#remedy");
            const [finding] = ask(started.folder, "advise", "--run", "baseline", ...OWN).findings;
            assert.match(first, /gradients stay allocated during the next/);
            assert.match(remedy, /^First remedy gradient .* freed before forward /);
            assert.equal(await page.textContent("#remedy-line"), finding.hint);
            const { reserved_bytes: reserved } = ask(started.folder, "peak", "--run", "baseline");
            assert.ok(
                remedy.includes(` ${sizeText(reserved)} → ${sizeText(finding.replayed.reserved_bytes)} reserved `),
                remedy,
            );
            assert.ok(
                (await page.textContent("#what-if-now")).startsWith(
                    `As it was: at most ${sizeText(reserved)} reserved`,
                ),
            );
        }),
);

test("what memtrace oom found is beside the picture, and a change that is pressed is drawn", { skip }, () =>
    withPage("oom", async (page) => {
        const { memory, verdict, changes } = ask(started.folder, "oom", "--run", "oom");
        assert.equal(await page.textContent("#verdict-title"), `Out of memory: ${sizeText(memory.short_bytes)} short`);
        assert.equal(await page.textContent("#verdict"), verdict);
        assert.ok(changes.length > 0, "some change suffices");
        assert.equal(await page.textContent("#remedy-line"), changes[0].command ?? changes[0].hint);
        const buttons = page.locator("#changes .change");
        await page.click("#all-changes", { timeout: 500 }).catch(() => {});
        assert.equal(await buttons.count(), changes.length);
        const sorted = changes.toSorted((a, b) => a.reserved_bytes - b.reserved_bytes);
        for (const [i, change] of sorted.entries()) {
            const text = await buttons.nth(i).textContent();
            assert.ok(text.includes(`→ ${sizeText(change.reserved_bytes)} reserved`), text);
            assert.ok(text.endsWith(`, ${sizeText(change.room_bytes)} to spare`), text);
        }
        const before = await page.locator("#area-0").screenshot();
        await buttons.first().click();
        await settle(page);
        assert.notDeepEqual(await page.locator("#area-0").screenshot(), before);
        assert.match(await page.textContent("#area-title-0"), /; blue: reserved with /);
        assert.equal(await page.textContent("#what-if-line"), sorted[0].command ?? sorted[0].hint);
        await page.waitForTimeout(250);
        const hash = await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("if"));
        assert.equal(hash, sorted[0].change);
    }),
);

test("the changes that memtrace advise checked have their peaks, on any card", { skip }, () =>
    withPage("baseline", async (page) => {
        const { simulated, findings, replayed } = ask(started.folder, "advise", "--run", "baseline", ...OWN);
        const before = replayed.reserved_bytes;
        const peaks = [...simulated.map(({ peak }) => peak), ...findings.map((finding) => finding.replayed)]
            .map((peak) => Math.max(peak.reserved_bytes, peak.allocated_bytes))
            .filter((bytes) => bytes < before)
            .sort((a, b) => a - b);
        await page.click("#all-changes");
        await settle(page);
        const texts = await page.locator("#changes .sizes").allTextContents();
        assert.equal(texts.length, peaks.length);
        for (const [i, text] of texts.entries())
            assert.ok(text.startsWith(`${sizeText(before)} → ${sizeText(peaks[i])} reserved`), text);
        const card = ask(started.folder, "cards").rows.find(({ name }) => name === "rtx4090");
        const capacity = card.memory_bytes - card.context_bytes;
        await page.selectOption("#card", "rtx4090");
        await settle(page);
        assert.ok(
            (await page.textContent("#what-if-now")).endsWith(
                `, ${sizeText(replayed.allocated_bytes - capacity)} too many.`,
            ),
        );
    }),
);

test("the page of two runs says what memtrace diff says", { skip }, () =>
    withPage("diff", async (page) => {
        const { causes, allocated_delta_bytes: delta } = ask(started.folder, "diff", "baseline", "autocast");
        const most = causes.reduce((a, b) => (Math.abs(b.bytes) > Math.abs(a.bytes) ? b : a));
        const rows = await page
            .locator("#cause-rows tr")
            .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
        assert.deepEqual(rows[0], [most.cause, changeText(most.bytes)]);
        assert.deepEqual(rows.at(-1), ["allocated at the peak", changeText(delta)]);
        assert.match(
            await page.textContent("#causes-sentence"),
            /^With autocast bf16 the run needs .* than with autocast off, because of /,
        );
    }),
);

test("the gaps at the moment of the refusal are those of memtrace oom", { skip }, () =>
    withPage("oom", async (page) => {
        const { asked, memory } = ask(started.folder, "oom", "--run", "oom");
        const text = await page.textContent("#allocator-text");
        assert.ok(text.startsWith(`${sizeText(memory.reserved_bytes)} in `), text);
        assert.ok(text.includes(`${sizeText(memory.hole_bytes)} free in ${memory.hole_count} gaps`), text);
        assert.ok(text.includes(`the largest ${sizeText(memory.largest_hole_bytes)}`), text);
        assert.ok(text.endsWith(`; ${sizeText(asked.requested_bytes)} was refused`), text);
    }),
);

/** Returns the bytes at the peak by category, of side "a" or "b" of a difference. */
function sumsOf(diff, side) {
    const sums = {};
    for (const row of diff.rows) sums[row.category] = (sums[row.category] ?? 0) + row[`${side}_bytes`];
    return Object.fromEntries(Object.entries(sums).filter(([, bytes]) => bytes > 0));
}

test("the sums of two runs are those of memtrace diff", { skip }, async () => {
    const diff = ask(started.folder, "diff", "baseline", "autocast");
    const sides = [diff.a.allocated_bytes, diff.b.allocated_bytes];
    assert.notEqual(sides[0], sides[1]);
    await withPage("diff", async (page) => {
        assert.deepEqual(await momentOf(page, "allocated"), sides);
        await page.selectOption("#color-key", "category");
        await settle(page);
        assert.deepEqual(await legendOf(page), sumsOf(diff, "a"));
        assert.equal(await page.locator('#answer [role="alert"]').count(), 0);
        assert.match(await page.textContent("#answer"), /(higher|lower) than baseline/);
    });
    await withPage("back", async (page) => {
        assert.deepEqual(await momentOf(page, "allocated"), sides.reverse());
        await page.selectOption("#color-key", "category");
        await settle(page);
        assert.deepEqual(await legendOf(page), sumsOf(diff, "b"));
    });
});

test("a run that never got a block is a page that says so", { skip }, () =>
    withPage("empty", async (page) => {
        assert.equal(ask(started.folder, "peak", "--run", "empty").allocated_bytes, 0);
        const answer = await page.textContent("#answer");
        assert.match(answer, /Nothing was allocated/);
        assert.match(answer, /Out of memory/);
    }),
);

test("a million allocations are shown, and sum up", { skip }, async () => {
    simulate(started.folder, "long", ["--steps", "230"]);
    urls.long = writeTimeline(started.folder, "long", ["--run", "long"]);
    assert.ok(statSync(join(started.folder, "long.html")).size <= 10e6);
    const [[allocations]] = ask(
        started.folder,
        "sql",
        "SELECT count(*) FROM block_use JOIN run ON run.id = :run AND allocation >= first_event",
        "--run",
        "long",
    ).rows;
    assert.ok(allocations >= 1e6, `${allocations} allocations`);
    await withPage("long", async (page) => {
        await expectPeak(page, ask(started.folder, "peak", "--run", "long"));
    });
});

/** Runs the command that "Copy as command" copies. */
async function answerOf(page) {
    await page.keyboard.press("c");
    const command = await page.textContent("#command-text");
    assert.match(command, /^memtrace /);
    return execFileSync("sh", ["-c", command.replace("memtrace", () => `'${MEMTRACE}'`)], {
        cwd: started.folder,
        encoding: "utf8",
    });
}

test("copied commands about two traces ask each of them", { skip }, async () => {
    await withPage("traces", async (page) => {
        assert.equal(await answerOf(page), memtrace(started.folder, ["diff", "baseline", "strange.db:"]));
        await page.goto(`${urls.traces}#map=1&block=0`);
        await settle(page);
        assert.notEqual(await answerOf(page), "");
        assert.match(await page.textContent("#command-text"), / --trace strange\.db$/);
    });
});

test("names of a trace are shown as text, and none of them acts", { skip }, async () => {
    const html = readFileSync(join(started.folder, "strange.html"), "utf8");
    for (const part of ["<img src", "xxxxxxxxxx", "'taken'", "cut here"]) assert.ok(!html.includes(part), part);
    await withPage("strange", async (page) => {
        assert.match(await page.title(), / · memtrace$/);
        assert.equal(await page.locator("#page img, #page script, #page b b").count(), 0);
        await page.selectOption("#color-key", "category"); // roles have no names of the program's choice
        await settle(page);
        const legend = await legendOf(page);
        assert.ok("<script>document.title='taken'</script>" in legend, Object.keys(legend).join());
        const sum = Object.values(legend).reduce((bytes, each) => bytes + each, 0);
        assert.equal(sum, ask(started.folder, "peak", "--trace", "strange.db").allocated_bytes);
        for (const [typed, shown] of [
            ["<script>", /<script>document\.title='taken'<\/script>/],
            ["onerror", /"'><img src=x onerror=/],
            ["xxxxxxxx", /x{100,} … x{20,}/],
            ["&lt;", /&lt;b&gt;&amp;<b>/],
        ]) {
            await page.fill("#search", typed);
            await page.press("#search", "Enter");
            await settle(page);
            assert.match(await page.textContent("#block-facts"), shown);
        }
        assert.match(await page.title(), / · memtrace$/);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    });
});

for (const scheme of ["light", "dark"])
    test(`axe-core finds nothing in any of them, ${scheme}`, { skip }, async () => {
        for (const name of ["baseline", "diff", "oom", "empty", "strange"])
            await withPage(name, async (page) => assert.deepEqual(await violations(page), [], name), { scheme });
    });
