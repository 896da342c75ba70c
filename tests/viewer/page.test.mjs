/** The page in a browser: each click, key and zoom, checked by the texts and attributes of the page. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { settle, startBrowser } from "./browser.mjs";
import { clickAt, factsOf, legendOf, numbers, pointOf, press, withOpened } from "./hands.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

let started;
const urls = {};
const data = {};

before(async () => {
    started = await startBrowser();
    for (const [name, count, words] of [
        ["one", 3000, ["small", "kernels"]],
        ["two", 3000, ["small", "diff"]],
        ["oom", 300, ["small", "oom"]],
        ["empty", 0, ["empty"]],
        ["deep", 300, ["small", "deep"]],
        ["hostile", 1500, ["small", "hostile", "kernels"]],
    ]) {
        data[name] = makeSyntheticPage(count, words);
        if (name === "deep") loseLabels(data[name].runs[0].tables.blocks);
        if (name === "oom") addStacks(data[name]);
        urls[name] = started.write(name, data[name]);
    }
});
after(() => started.close());

/** Removes the label of every third block, as in a damaged trace. */
function loseLabels(blocks) {
    blocks.label.forEach((_, i) => {
        if (i % 3 === 0) blocks.label[i] = 0;
    });
}

/** Gives every block the call stack train.py › a library. */
function addStacks(page) {
    const [, main, forward, train, library] = [
        "",
        "<module>",
        "forward",
        "/home/me/train.py",
        "/x/site-packages/lib/nn.py",
    ].map((text) => (page.texts.includes(text) ? page.texts.indexOf(text) : page.texts.push(text) - 1));
    const { tables } = page.runs[0];
    tables.stacks = { parent: [0, 0, 1], function: [0, main, forward], file: [0, train, library], line: [0, 42, 7] };
    tables.callers = { stack: tables.blocks.alloc.map(() => 2) };
}

const withPage = (name, options, body) => withOpened(started, urls[name], options, body);

/** Returns the composition of a recording after an event, by role or category. */
function compositionOf(page, run, event, key = "role") {
    const { blocks, sizes, labels } = page.runs[run].tables;
    const bytes = new Map();
    blocks.alloc.forEach((alloc, i) => {
        if (alloc > event || (blocks.life[i] > 0 && alloc + blocks.life[i] <= event)) return;
        const label = blocks.label[i];
        const name = key === "role" ? page.texts[labels.role[label]] : page.categories[labels.category[label]];
        bytes.set(name, (bytes.get(name) ?? 0) + sizes.block[blocks.size[i]]);
    });
    return bytes;
}

test("the first sentence tells the peak to the byte, and the legend its composition", () =>
    withPage("one", {}, async (page) => {
        const { bytes, event } = data.one.runs[0].info.peaks.allocated;
        const answer = await page.textContent("#answer");
        assert.match(answer, new RegExp(`${bytes.toLocaleString("en-US")} bytes`));
        assert.match(answer, /step \d+, (forward|backward|loss|optimizer)/);
        assert.equal(await page.textContent("#moment-title"), "At the peak");
        assert.match(await page.textContent("#allocator-title"), /^At the peak, by address: 0 B to [\d.]+ GiB$/);
        const expected = compositionOf(data.one, 0, event);
        const legend = await legendOf(page);
        for (const [name, size] of expected) assert.equal(legend[name], size, name);
        assert.equal(
            Object.values(legend).reduce((sum, each) => sum + each, 0),
            bytes,
        );
        assert.equal(Number(await page.getAttribute("#moment-sizes tr:first-child td", "data-bytes")), bytes);
    }));

test("a click on the area pins that column's highest moment, and p goes back to the peak", () =>
    withPage("one", {}, async (page) => {
        const peak = (await numbers(page)).moments[0];
        await clickAt(page, "#area-0", 0.8, 0.5);
        const pinned = (await numbers(page)).moments[0];
        assert.notEqual(pinned, peak);
        assert.equal(await page.textContent("#moment-title"), "At the pinned moment");
        const legend = await legendOf(page);
        for (const [name, size] of compositionOf(data.one, 0, pinned)) assert.equal(legend[name], size, name);
        await press(page, "p");
        const after = await numbers(page);
        assert.equal(after.moments[0], peak);
        assert.ok(after.to - after.from < after.length / 4);
        const x = data.one.runs[0].tables.events.time[peak];
        assert.ok(x >= after.from && x <= after.to);
    }));

test("the live list is a table, largest first, of every block that is live", () =>
    withPage("one", {}, async (page) => {
        const { event } = data.one.runs[0].info.peaks.allocated;
        const { blocks } = data.one.runs[0].tables;
        const live = blocks.alloc.filter(
            (alloc, i) => alloc <= event && (blocks.life[i] === 0 || alloc + blocks.life[i] > event),
        ).length;
        const caption = await page.textContent("#live-title");
        assert.match(caption, new RegExp(`^${live} blocks live`));
        const sizes = await page.locator("#live .group td:first-child").evaluateAll((cells) =>
            cells.map((cell) => {
                const count = cell.querySelector(".each")?.textContent.split(" ×")[0] ?? "1";
                return Number(cell.title.replace(/\D/g, "")) * Number(count.replaceAll(",", ""));
            }),
        );
        assert.ok(sizes.length > 10);
        sizes.slice(1).forEach((size, i) => assert.ok(size <= sizes[i]));
        await page.locator("#live .group button.fold").first().click();
        await page.locator("#live .member button").first().click();
        await settle(page);
        assert.equal(await page.isVisible("#block"), true);
        assert.match(await page.textContent("#block-facts"), /requested.*bytes/);
    }));

test("the strip tells what is under the pointer, selects it, and draws what was refused", () =>
    withPage("oom", {}, async (page) => {
        await press(page, "p");
        const sums = await page.textContent("#allocator-text");
        assert.match(sums, /^[\d.]+ .iB in \d+ segments; [\d.]+ .?i?B free in /);
        await page.locator("#strip").scrollIntoViewIfNeeded();
        const strip = await page.locator("#strip").boundingBox();
        await page.mouse.move(strip.x + 100, strip.y + 10);
        assert.match(await page.textContent("#allocator-text"), /^[\d.]+ .iB {2}\w/);
        await page.mouse.click(strip.x + 100, strip.y + 10);
        await settle(page);
        assert.equal(await page.isVisible("#block"), true);
        await page.mouse.move(0, 0);
        assert.equal(await page.textContent("#allocator-text"), sums);
        await page.click("#answer button");
        await settle(page);
        assert.match(await page.textContent("#allocator-text"), /was refused$/);
        const { event } = data.oom.runs[0].tables.marks;
        assert.equal((await numbers(page)).moments[0], event.at(-1));
    }));

test("the call stack of a block begins with the program's own line, and can be copied as a whole", () =>
    withPage("oom", {}, async (page) => {
        await press(page, "p");
        await page.locator("#live .group button:not(.fold)").first().click();
        await settle(page);
        assert.equal(await page.textContent("#stack-line"), "/home/me/train.py:42 in <module>");
        assert.equal(await page.textContent("#stack-count"), "call stack, 2 frames");
        await page.click("#stack-count");
        const lines = ["/x/site-packages/lib/nn.py:7 in forward", "/home/me/train.py:42 in <module>"];
        assert.deepEqual(await page.locator("#stack-frames li").allTextContents(), lines);
        await page.click("#copy-stack");
        assert.equal(await page.evaluate(() => navigator.clipboard.readText()), lines.join("\n"));
    }));

test("alike blocks are one row, which unfolds to each of them and keeps the keyboard", () =>
    withPage("one", {}, async (page) => {
        const fold = page.locator("#live .fold").first();
        const count = Number(/^(\d+) × /.exec(await page.locator("#live .each").first().textContent())[1]);
        await fold.focus();
        await press(page, "Enter");
        assert.equal(await fold.getAttribute("aria-expanded"), "true");
        assert.equal(await page.evaluate(() => document.activeElement.className), "link fold");
        assert.equal(await page.locator("#live .member").count(), count);
        await page.keyboard.press("Tab");
        await press(page, "Enter");
        assert.equal(await page.isVisible("#block"), true);
        assert.match(await page.evaluate(() => document.activeElement.dataset.key), /^block \d+$/);
        assert.match(await page.textContent("#twins-text"), new RegExp(`${count} of them live at once`));
        await fold.click();
        await settle(page);
        assert.equal(await page.locator("#live .member").count(), 0);
    }));

test("a click on the map tells all about a block, and its twins can be shown", () =>
    withPage("one", {}, async (page) => {
        await clickAt(page, "#map", 0.6, 0.97); // the first parameters lie lowest
        const { selected } = await numbers(page);
        const { tables } = data.one.runs[0];
        assert.ok(selected >= 0);
        const label = tables.blocks.label[selected];
        const facts = await page.textContent("#block-facts");
        const text = (column) => data.one.texts[tables.labels[column][label]];
        for (const part of [
            data.one.categories[tables.labels.category[label]],
            text("op"),
            text("role"),
            text("dtype"),
            text("span").split(".").join(" › "),
            tables.sizes.requested[tables.blocks.size[selected]].toLocaleString("en-US"),
        ])
            assert.ok(facts.includes(part), `${part} in ${facts}`);
        assert.match(facts, /used\d+ reads?, 1 write/);
        const twins = tables.blocks.label.filter(
            (other, i) =>
                tables.blocks.size[i] === tables.blocks.size[selected] &&
                ["category", "role", "op", "phase", "dtype", "shape", "place"].every(
                    (name) => tables.labels[name][other] === tables.labels[name][label],
                ),
        ).length;
        assert.match(await page.textContent("#twins-text"), new RegExp(`^${twins} blocks differ by`));
        await page.click("#show-twins");
        await settle(page);
        assert.equal(await page.getAttribute("#show-twins", "aria-pressed"), "true");
        await page.click("#twins li button:not([aria-current])");
        await settle(page);
        assert.notEqual((await numbers(page)).selected, selected);
        await press(page, "Escape");
        assert.equal(await page.isVisible("#block"), false);
    }));

test("the wheel zooms at the pointer, a drag pans, and everything comes back with 0", () =>
    withPage("one", {}, async (page) => {
        const [x, y] = await pointOf(page, "#area-0", 0.25, 0.5);
        await page.mouse.move(x, y);
        await page.mouse.wheel(0, -400);
        await settle(page);
        const zoomed = await numbers(page);
        assert.ok(zoomed.to - zoomed.from < zoomed.length * 0.6);
        const under = zoomed.from + (zoomed.to - zoomed.from) * 0.25;
        assert.ok(Math.abs(under - zoomed.length * 0.25) < zoomed.length * 0.002);
        await page.mouse.down();
        await page.mouse.move(x - 100, y, { steps: 3 });
        await page.mouse.up();
        await settle(page);
        const panned = await numbers(page);
        assert.ok(panned.from > zoomed.from);
        assert.ok(Math.abs(panned.to - panned.from - (zoomed.to - zoomed.from)) < 1);
        await press(page, "0");
        assert.deepEqual(await numbers(page).then(({ from, to, length }) => [from, to === length]), [0, true]);
    }));

test("arrows and WASD move and zoom, and the alt wheel zooms addresses", () =>
    withPage("one", {}, async (page) => {
        await press(page, "w", "w", "w");
        const first = await numbers(page);
        await press(page, "d");
        assert.ok((await numbers(page)).from > first.from);
        await press(page, "ArrowLeft");
        assert.ok(Math.abs((await numbers(page)).from - first.from) < 1);
        await press(page, "a");
        assert.ok((await numbers(page)).from < first.from);
        await press(page, "s");
        assert.ok((await numbers(page)).to - (await numbers(page)).from > first.to - first.from);
        await page.mouse.move(...(await pointOf(page, "#map", 0.5, 0.5)));
        await page.keyboard.down("Alt");
        await page.mouse.wheel(0, -500);
        await page.keyboard.up("Alt");
        await settle(page);
        const high = await numbers(page);
        assert.ok(high.high - high.low < first.high / 2);
        await press(page, "ArrowUp");
        assert.ok((await numbers(page)).low > high.low);
        await press(page, "ArrowDown");
        assert.ok(Math.abs((await numbers(page)).low - high.low) < 2);
    }));

test("shift-drag measures a range: time, events, its peak, and what of its allocations is left", () =>
    withPage("one", {}, async (page) => {
        await page.keyboard.down("Shift");
        await page.mouse.move(...(await pointOf(page, "#area-0", 0.2, 0.5)));
        await page.mouse.down();
        await page.mouse.move(...(await pointOf(page, "#area-0", 0.5, 0.5)), { steps: 4 });
        await page.mouse.up();
        await page.keyboard.up("Shift");
        await settle(page);
        const { length } = await numbers(page);
        const text = await page.textContent("#measure");
        const [, ms, events] =
            /^([\d.]+) ms, ([\d,]+) events, allocated [+−]?[\d.]+ \w+, at most [\d.]+ \w+; [\d,]+ allocations, of which [\d.]+ \w+ was left$/.exec(
                text,
            ) ?? assert.fail(text);
        assert.ok(Math.abs(Number(ms) * 1e6 - 0.3 * length) < 0.005 * length);
        assert.ok(Number(events.replaceAll(",", "")) > 100);
        await press(page, "z");
        const { from, to } = await numbers(page);
        assert.ok(Math.abs(from - 0.2 * length) < 0.005 * length && Math.abs(to - 0.5 * length) < 0.005 * length);
    }));

test("steps are numbered at any count, and two numbers never touch", () =>
    withPage("one", {}, async (page) => {
        const texts = () =>
            page.evaluate(() => {
                const context = document.getElementById("bars").getContext("2d");
                const written = [];
                const fillText = context.fillText.bind(context);
                context.fillText = (text, x, y) => {
                    if (/^(step )?\d+$/.test(text) && context.textAlign === "left" && y > 20)
                        written.push([text, x, x + context.measureText(text).width]);
                    fillText(text, x, y);
                };
                return new Promise((resolve) => {
                    window.dispatchEvent(new KeyboardEvent("keydown", { key: "b" }));
                    requestAnimationFrame(() => requestAnimationFrame(() => resolve(written)));
                });
            });
        const written = await texts();
        assert.ok(written.length > 0);
        written.slice(1).forEach(([text, left], i) => assert.ok(left > written[i][2], `${written[i][0]} and ${text}`));
    }));

test("a click on the area selects the block that is there, f zooms to it, and m measures its life", () =>
    withPage("one", {}, async (page) => {
        const { tables, info } = data.one.runs[0];
        await clickAt(page, "#area-0", 0.8, 0.97);
        const { selected, moments } = await numbers(page);
        assert.ok(selected >= 0);
        const { alloc, life, label } = tables.blocks;
        const free = life[selected] === 0 ? info.event_count : alloc[selected] + life[selected];
        assert.ok(alloc[selected] <= moments[0] && moments[0] < free);
        assert.equal(data.one.categories[tables.labels.category[label[selected]]], "Param", "the lowest of the stack");
        await clickAt(page, "#map", 0.6, 0.6);
        await press(page, "f");
        const view = await numbers(page);
        const block = view.selected;
        const end = life[block] === 0 ? info.event_count : alloc[block] + life[block];
        assert.ok(view.from <= tables.events.time[alloc[block]] && view.low < view.high);
        assert.ok(end === info.event_count || view.to >= tables.events.time[end]);
        await press(page, "m");
        assert.match(await page.textContent("#measure"), /allocations, of which/);
        const [box, chart] = await Promise.all(["#measure", "#area-0"].map((id) => page.locator(id).boundingBox()));
        assert.ok(box.y > chart.y && box.y + box.height < chart.y + chart.height, "where it was drawn");
        await clickAt(page, "#area-0", 0.02, 0.02);
        assert.equal((await numbers(page)).selected, -1, "above the curve is no block");
    }));

test("a page of a run out of memory opens at the refusal", () =>
    withPage("oom", {}, async (page) => {
        const { event } = data.oom.runs[0].tables.marks;
        assert.equal((await numbers(page)).moments[0], event.at(-1));
        assert.equal(await page.textContent("#moment-title"), "At the refusal");
        assert.match(await page.textContent("#allocator-text"), /was refused$/);
        assert.ok((await page.textContent(".card-key")).includes("refused 128.00 MiB"));
        await page.waitForTimeout(250);
        assert.ok(!page.url().includes("at="));
    }));

test("the minimap moves the view", () =>
    withPage("one", {}, async (page) => {
        assert.equal(await page.isVisible("#minimap"), false, "only of a part is the whole shown");
        await press(page, "w", "w", "w", "w", "w", "w");
        await clickAt(page, "#minimap", 0.9, 0.5);
        const { from, to, length } = await numbers(page);
        assert.ok(Math.abs((from + to) / 2 - 0.9 * length) < 0.01 * length);
    }));

test("colours are those of roles, and of categories for who asks for them, in a link, too", () =>
    withPage("one", {}, async (page) => {
        const { event } = data.one.runs[0].info.peaks.allocated;
        const live = async () => Object.entries(await legendOf(page)).filter(([, bytes]) => bytes > 0);
        const sorted = (entries) => [...entries].sort();
        assert.deepEqual(sorted(await live()), sorted(compositionOf(data.one, 0, event)));
        assert.equal(await page.textContent("#live-key"), "role");
        await page.click('#legend button:has-text("activation")');
        await page.selectOption("#color-key", "category");
        await settle(page);
        assert.deepEqual(sorted(await live()), sorted(compositionOf(data.one, 0, event, "category")));
        assert.equal(await page.textContent("#live-key"), "category");
        assert.match(await page.textContent("#area-title-0"), /^Allocated by category/);
        assert.equal(await page.locator('#legend [aria-pressed="true"]').count(), 0, "all are shown again");
        await page.waitForFunction(() => location.hash.includes("color=category"));
        await page.reload();
        await page.waitForSelector('#page[data-complete="true"]');
        assert.equal(await page.inputValue("#color-key"), "category");
        assert.deepEqual(sorted(await live()), sorted(compositionOf(data.one, 0, event, "category")));
    }));

test("a category in the legend is shown alone, with its own peak", () =>
    withPage("one", { hash: "#color=category" }, async (page) => {
        await page.click('#legend button:has-text("Softmax")');
        await settle(page);
        assert.equal(await page.getAttribute('#legend button:has-text("Softmax")', "aria-pressed"), "true");
        assert.match(await page.textContent("#live-title"), /of Softmax live/);
        await press(page, "p");
        const legend = await legendOf(page);
        const { moments } = await numbers(page);
        const { tables } = data.one.runs[0];
        let now = 0;
        let most = 0;
        const category = data.one.categories.indexOf("Softmax");
        const change = new Map();
        tables.blocks.alloc.forEach((event, i) => {
            if (tables.labels.category[tables.blocks.label[i]] !== category) return;
            const bytes = tables.sizes.block[tables.blocks.size[i]];
            change.set(event, bytes);
            if (tables.blocks.life[i] > 0) change.set(event + tables.blocks.life[i], -bytes);
        });
        for (const event of [...change.keys()].sort((a, b) => a - b)) most = Math.max(most, (now += change.get(event)));
        assert.equal(legend.Softmax, most);
        assert.equal(compositionOf(data.one, 0, moments[0], "category").get("Softmax"), most);
        await page.click('#legend button:has-text("Softmax")');
        await settle(page);
        assert.match(await page.textContent("#live-title"), /blocks live/);
    }));

/** Returns the bytes by group in the side panel, of the first run. */
const groupsIn = (page) =>
    page.evaluate(() =>
        Object.fromEntries(
            [...document.querySelectorAll("#groups tr")].map((row) => [
                row.children[0].textContent,
                Number(row.children[1].dataset.bytes),
            ]),
        ),
    );

test("what is live is summed up by role, or by the word that is chosen", () =>
    withPage("one", {}, async (page) => {
        const { bytes, event } = data.one.runs[0].info.peaks.allocated;
        const { blocks, sizes, labels } = data.one.runs[0].tables;
        const columns = { role: "role", module: "place", op: "op", phase: "phase", dtype: "dtype" };
        for (const [key, column] of Object.entries(columns)) {
            await page.selectOption("#group-key", key);
            await settle(page);
            const groups = await groupsIn(page);
            const expected = {};
            blocks.alloc.forEach((alloc, i) => {
                if (alloc > event || (blocks.life[i] > 0 && alloc + blocks.life[i] <= event)) return;
                const name = data.one.texts[labels[column][blocks.label[i]]] || "(none)";
                expected[name] = (expected[name] ?? 0) + sizes.block[blocks.size[i]];
            });
            for (const [name, size] of Object.entries(groups)) assert.equal(size, expected[name], `${key} ${name}`);
            const sum = Object.values(groups).reduce((all, each) => all + each, 0);
            assert.equal(sum, bytes, key);
        }
        await page.selectOption("#group-key", "category");
        await settle(page);
        assert.deepEqual(await groupsIn(page), Object.fromEntries(compositionOf(data.one, 0, event, "category")));
    }));

test("/ searches words of labels, Enter goes through the blocks", () =>
    withPage("one", {}, async (page) => {
        await press(page, "/");
        await page.keyboard.type("softmax.exp");
        await settle(page);
        const { tables } = data.one.runs[0];
        const matching = tables.blocks.label
            .map((label, i) => [data.one.texts[tables.labels.op[label]].includes("softmax.exp"), i])
            .filter(([yes]) => yes)
            .map(([, i]) => i);
        assert.match(
            await page.textContent("#found"),
            new RegExp(` moment; ${matching.length} blocks in \\d+ groups?$`),
        );
        await press(page, "Enter");
        assert.equal((await numbers(page)).selected, matching[0]);
        await press(page, "Enter");
        assert.equal((await numbers(page)).selected, matching[1]);
        await press(page, "Shift+Enter");
        assert.equal((await numbers(page)).selected, matching[0]);
        await page.fill("#search", "layers.2.ffn");
        await settle(page);
        assert.ok((await page.locator("#results li").allTextContents()).every((text) => text.includes("layers.2.ffn")));
        await page.fill("#search", "activation");
        await settle(page);
        assert.match((await page.locator("#results li").allTextContents())[0], /^activation role, /);
        assert.ok(Object.values(await legendOf(page)).some((bytes) => bytes > 0));
        assert.equal((await legendOf(page)).Param ?? 0, 0, "charts show what was found alone");
        await page.fill("#search", "no such thing");
        await settle(page);
        assert.equal(await page.textContent("#found"), "nothing found");
        await press(page, "Escape");
        assert.equal(await page.textContent("#found"), "");
    }));

test("a group that is hidden is in no chart and no list, in a link too, until Escape", () =>
    withPage("one", {}, async (page) => {
        await page.selectOption("#group-key", "role");
        const before = await legendOf(page);
        const isOn = (name) => page.locator(`#groups button:text-is("${name}")`).getAttribute("aria-checked");
        await page.click('#groups button:text-is("parameter")');
        await settle(page);
        assert.equal(await isOn("parameter"), "false");
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "parameter");
        const { parameter, ...rest } = await legendOf(page);
        assert.equal(parameter ?? 0, 0);
        assert.deepEqual(rest, Object.fromEntries(Object.entries(before).filter(([name]) => name !== "parameter")));
        assert.ok(!(await page.textContent("#live")).includes("parameter"));
        await press(page, "p");
        assert.match(await page.textContent("#said"), /^What is shown: .* at its peak/);
        await sleep(300); // until the hash is written
        const url = page.url();
        assert.match(url, /hide=role%3Aparameter/);
        await page.goto("about:blank");
        await page.goto(url);
        await settle(page);
        assert.equal(await isOn("parameter"), "false");
        await press(page, "Escape");
        assert.equal(await isOn("parameter"), "true");
    }));

test("the icicle follows the cursor over an area, and goes back to the pinned moment", () =>
    withPage("one", {}, async (page) => {
        const shown = async () => [
            await page.textContent("#icicle-title"),
            (await page.locator("#icicle > *").evaluateAll((all) => all.map(({ title }) => title))).join("\n"),
        ];
        const [pinned, atPeak] = await shown();
        assert.match(pinned, /^At the peak, /);
        await page.mouse.move(...(await pointOf(page, "#area-0", 0.02, 0.5)));
        await settle(page);
        const [title, modules] = await shown();
        assert.match(title, /^At the cursor, /);
        assert.notEqual(modules, atPeak);
        await page.mouse.move(5, 5);
        await settle(page);
        assert.deepEqual(await shown(), [pinned, atPeak]);
    }));

test("a module of the icicle is shown alone, and layers unfold", () =>
    withPage("one", {}, async (page) => {
        const names = () => page.locator("#icicle > *").allTextContents();
        const all = await legendOf(page);
        assert.ok((await names()).includes("ffn"));
        await page.click('#icicle button:text-is("ffn")');
        await settle(page);
        assert.match(
            await page.textContent("#icicle-title"),
            /^At the peak, by module and op: model\.layers\.\*\.ffn$/,
        );
        const sums = await legendOf(page);
        assert.ok(sums.parameter > 0 && sums.parameter < all.parameter);
        await press(page, "l");
        assert.ok((await names()).some((name) => /^\d+/.test(name)));
        await page.click("#leave-module");
        await settle(page);
        assert.deepEqual(await legendOf(page), all);
        assert.equal(await page.isVisible("#leave-module"), false);
    }));

test("x is time, event number or phases, and what was in sight stays", () =>
    withPage("one", {}, async (page) => {
        await press(page, "p", "x");
        const byEvent = await numbers(page);
        assert.equal(byEvent.axis, "event");
        assert.equal(byEvent.length, data.one.runs[0].info.event_count);
        assert.ok(byEvent.moments[0] >= byEvent.from && byEvent.moments[0] <= byEvent.to);
        await page.selectOption("#axis", "phase");
        await settle(page);
        assert.equal((await numbers(page)).axis, "phase");
        await press(page, "x");
        assert.equal((await numbers(page)).axis, "time");
    }));

test("pointing at the area and the map tells what is there", () =>
    withPage("one", {}, async (page) => {
        await page.mouse.move(...(await pointOf(page, "#area-0", 0.5, 0.7)));
        assert.match(await page.textContent("#tip"), /allocated\nstep \d+ · .*\n.*optimizer state/s);
        await page.mouse.move(...(await pointOf(page, "#map", 0.6, 0.97)));
        assert.match(
            await page.textContent("#tip"),
            /^[\d.]+ [KM]iB fp32 \[4, 256, \d+\] · parameter\nparameter · init · model\.layers\.\d+\./,
        );
        await page.mouse.move(5, 5);
        await settle(page);
        assert.equal(await page.isVisible("#tip"), false);
    }));

test("the next and the previous event are a key away", () =>
    withPage("one", {}, async (page) => {
        const [peak] = (await numbers(page)).moments;
        await press(page, ".");
        assert.equal((await numbers(page)).moments[0], peak + 1);
        await press(page, ",", ",");
        assert.equal((await numbers(page)).moments[0], peak - 1);
    }));

test("? lists the keys", () =>
    withPage("one", {}, async (page) => {
        await press(page, "?");
        assert.match(await page.textContent("#key-list"), /jump to the peak.*search words of labels.*measure a range/s);
        await press(page, "Escape");
        assert.equal(await page.evaluate(() => document.getElementById("keys").open), false);
    }));

test("copy as command gives the command for what is shown", () =>
    withPage("one", {}, async (page) => {
        const copied = async () => {
            await page.evaluate(() => {
                document.getElementById("said").textContent = "";
            });
            await page.click("#menu-button");
            await page.click("#copy");
            assert.equal(await page.isVisible("#menu"), false);
            await page.waitForFunction(() => document.getElementById("said").textContent !== "");
            const shown = await page.textContent("#command-text");
            assert.equal(await page.evaluate(() => navigator.clipboard.readText()), shown);
            return shown;
        };
        const top = async () => (await page.locator("#charts").boundingBox()).y;
        const before = await top();
        assert.equal(await copied(), "memtrace peak --run 1 --trace memtrace.db");
        assert.equal(await top(), before, "it pushes nothing down");
        await press(page, ".");
        assert.match(await copied(), /^memtrace sql 'SELECT category, .* BETWEEN 1 AND \d+ .*' --run 1 --trace /);
        await press(page, "p");
        await page.click('#legend button:has-text("parameter")');
        assert.match(await copied(), /^memtrace top --role parameter --at peak --run 1 /);
        await page.selectOption("#color-key", "category");
        await page.click('#legend button:has-text("Softmax")');
        assert.match(await copied(), /^memtrace top --category Softmax --at peak --run 1 /);
        await press(page, "Escape");
        await page.focus("#bars");
        await press(page, "ArrowRight");
        assert.match(await copied(), /^memtrace events --step \d+ --run 1 /);
        await press(page, "m");
        assert.match(await page.textContent("#measure"), /allocations, of which/);
        await press(page, "Escape");
        await clickAt(page, "#map", 0.6, 0.97);
        const { selected } = await numbers(page);
        assert.match(await copied(), new RegExp(`event.id = ${data.one.runs[0].tables.blocks.alloc[selected] + 1} OR`));
    }));

test("blocks without a label are unknown, and a category of their own", () =>
    withPage("deep", {}, async (page) => {
        const { tables, info } = data.deep.runs[0];
        const { event } = info.peaks.allocated;
        const lost = tables.blocks.alloc.reduce((sum, alloc, i) => {
            const { life, label, size } = tables.blocks;
            const live = alloc <= event && (life[i] === 0 || alloc + life[i] > event);
            return sum + (live && label[i] === 0 ? tables.sizes.block[size[i]] : 0);
        }, 0);
        assert.ok(lost > 0);
        assert.equal((await legendOf(page)).unknown, lost);
        await page.selectOption("#color-key", "category");
        await settle(page);
        assert.equal((await legendOf(page)).unlabelled, lost);
        await page.goto(`${urls.deep}#block=0`);
        await settle(page);
        assert.equal((await factsOf(page, "#block-facts")).category, "unlabelled");
    }));

test("light and dark follow the reader, and t changes them", () =>
    withPage("one", { scheme: "dark" }, async (page) => {
        const theme = () =>
            page.evaluate(() => [
                document.documentElement.dataset.theme,
                getComputedStyle(document.body).backgroundColor,
            ]);
        const [dark, darkColor] = await theme();
        await press(page, "t");
        const [light, lightColor] = await theme();
        assert.deepEqual([dark, light], ["dark", "light"]);
        assert.notEqual(darkColor, lightColor);
        await press(page, "t");
        await page.emulateMedia({ media: "print" });
        await settle(page);
        assert.equal((await theme())[0], "light"); // paper is white
        assert.equal(await page.isVisible("#controls"), false);
        await page.emulateMedia({ media: "screen" });
        await settle(page);
        assert.equal((await theme())[0], "dark");
    }));

test("two runs are compared: both areas, the difference, and each at its own peak", () =>
    withPage("two", {}, async (page) => {
        const [first, second] = data.two.runs.map(({ info }) => info.peaks.allocated);
        const state = await numbers(page);
        assert.equal(state.axis, "phase");
        assert.deepEqual(state.moments, [first.event, second.event]);
        assert.match(await page.textContent("#answer"), /lower than baseline.*−/s);
        assert.equal(await page.locator("#areas canvas").count(), 3);
        const cells = await page
            .locator("#moment-sizes tr:nth-child(2) td")
            .evaluateAll((all) => all.map((cell) => Number(cell.dataset.bytes)));
        assert.deepEqual(cells, [first.bytes, second.bytes]);
        await page.mouse.move(...(await pointOf(page, "#difference", 0.6, 0.5)));
        assert.match(await page.textContent("#tip"), /^−.* allocated/);
        assert.match(await page.textContent("#bars-title"), / of baseline$/);
        await page.selectOption("#map-run", "1");
        await settle(page);
        assert.match(await page.textContent("#bars-title"), / of autocast$/);
        assert.match(await page.textContent("#map-title"), /^Addresses of autocast:/);
        assert.equal(Number((await numbers(page)).high) > 0, true);
        await press(page, "c");
        assert.equal(await page.textContent("#command-text"), "memtrace diff 1 2 --trace memtrace.db");
    }));

test("a run that ended out of memory says what could not be had, and where", () =>
    withPage("oom", {}, async (page) => {
        assert.match(
            await page.textContent("#answer"),
            /^Out of memory: 128\.00 MiB refused.*128\.00 MiB for Softmax \(softmax\.div\) could not be allocated in step 2, forward, model\.layers\.31\.attn on /s,
        );
    }));

test("an empty run is a page that says so", () =>
    withPage("empty", {}, async (page) => {
        assert.match(await page.textContent("#answer"), /Nothing was allocated/);
        await press(page, "p", "w", "x", ".", "0");
        await clickAt(page, "#map", 0.5, 0.5);
        await clickAt(page, "#area-0", 0.5, 0.5);
        assert.equal((await numbers(page)).selected, -1);
    }));

test("names from a trace are text, whatever they hold", () =>
    withPage("hostile", {}, async (page) => {
        await clickAt(page, "#map", 0.6, 0.97);
        await press(page, "/");
        await page.keyboard.type("<b>");
        await settle(page);
        assert.ok((await page.locator("#results li").count()) > 0);
        await page.fill("#search", "xxxxxxxx");
        await settle(page);
        await press(page, "Enter");
        assert.match(await page.textContent("#block-facts"), /x{100,} … x{20,}/);
        assert.match(await page.textContent("#block-facts"), /<script>/);
        assert.match(await page.title(), /^<script>.*<img src=x onerror=alert\(1\)> · memtrace$/);
        assert.equal(await page.locator("#page img, #page script, #page b b").count(), 0);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
        const html = await page.evaluate(async () =>
            document.documentElement.outerHTML.includes("<script>document.title"),
        );
        assert.equal(html, false);
    }));

test("a peak that the trace tells differently is pointed out", async () => {
    const page = structuredClone(data.one);
    page.runs[0].info.peaks.allocated.bytes += 512;
    urls.wrong = started.write("wrong", page);
    await withPage("wrong", {}, async (opened) => {
        assert.match(
            await opened.textContent('[role="alert"]'),
            /The trace says that the peak of allocated bytes of baseline is/,
        );
    });
});

test("a page that is cut off says so", async () => {
    const { readFileSync, writeFileSync } = await import("node:fs");
    const { fileURLToPath } = await import("node:url");
    const path = fileURLToPath(urls.one);
    const html = readFileSync(path, "utf8");
    writeFileSync(
        path.replace("one", "cut"),
        html.slice(0, html.indexOf('<script type="application/octet-stream;base64" id="chunk-3">')),
    );
    urls.cut = urls.one.replace("one.html", "cut.html");
    await withPage("cut", {}, async (page) => {
        assert.match(await page.textContent('[role="alert"]'), /can't be shown: .*chunk \d+ is missing/);
    });
});
