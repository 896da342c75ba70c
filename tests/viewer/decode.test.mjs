/** Decoding: encoded data comes back, and damaged data is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inflate, readDescription, readTable } from "../../viewer/decode.js";
import { encodeChunks } from "./encode.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

async function decodeAll(page) {
    const chunks = encodeChunks(page).map(base64);
    const description = readDescription(await inflate(chunks[0]));
    const chunk = (number) => inflate(chunks[number]);
    return Promise.all(
        description.runs.map(async (run) => {
            const names = Object.keys(run.tables);
            const tables = await Promise.all(names.map((name) => readTable(name, run.tables[name], chunk)));
            return Object.fromEntries(names.map((name, i) => [name, tables[i]]));
        }),
    );
}

test("every column of a page comes back as it was", async () => {
    const page = makeSyntheticPage(80000, ["noise", "kernels", "diff"]); // more rows than a chunk has
    const decoded = await decodeAll(page);
    page.runs.forEach(({ tables }, run) => {
        for (const [name, table] of Object.entries(tables))
            for (const [column, values] of Object.entries(table))
                assert.deepEqual(Array.from(decoded[run][name][column]), Array.from(values), `${name}.${column}`);
    });
});

test("numbers of every width come back", async () => {
    const values = [0, 1, 255, 256, 65535, 65536, 2 ** 24, 2 ** 32 - 1, 2 ** 32, 2 ** 40 + 512, 2 ** 47 + 3];
    for (let most = 1; most <= values.length; most++) {
        const some = values.slice(0, most);
        const width = some.at(-1) === 0 ? 0 : Math.ceil(Math.log2(some.at(-1) + 1) / 8);
        const bytes = new Uint8Array(width * most);
        for (let plane = 0; plane < width; plane++)
            some.forEach((value, i) => {
                bytes[plane * most + i] = Math.floor(value / 256 ** plane) % 256;
            });
        const table = {
            rows: most,
            part_rows: 100,
            first_chunk: 0,
            columns: [{ name: "n", width, coding: "plain", unit: 1 }],
        };
        assert.deepEqual(Array.from((await readTable("t", table, async () => bytes)).n), some);
    }
});

test("a chunk that is too short, a foreign format and an unknown coding are refused", async () => {
    const column = { name: "n", width: 2, coding: "plain", unit: 1 };
    const table = { rows: 3, part_rows: 10, first_chunk: 4, columns: [column] };
    await assert.rejects(
        readTable("t", table, async () => new Uint8Array(5)),
        /chunk 4 \(t\) holds 5 bytes, not 6/,
    );
    const foreign = { ...table, columns: [{ ...column, coding: "morse" }] };
    await assert.rejects(
        readTable("t", foreign, async () => new Uint8Array(6)),
        /column t\.n has an unknown coding/,
    );
    assert.throws(() => readDescription(new TextEncoder().encode('{"format":1}')), /reads format 3.*format 1/);
    const crowded = JSON.stringify({ format: 3, categories: Array(256).fill("c") });
    assert.throws(() => readDescription(new TextEncoder().encode(crowded)), /256 categories, more than 255/);
    await assert.rejects(inflate(base64([1, 2, 3])));
});
