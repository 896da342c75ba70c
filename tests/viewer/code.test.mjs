/** The page's program has types without an error (tsc, strict), obeys the rules of ESLint, and is laid out by prettier. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

for (const [name, folder, words] of [
    ["typescript/bin/tsc", HERE, ["--project", "."]],
    ["eslint/bin/eslint.js", ROOT, ["--config", "tests/viewer/eslint.config.mjs", "viewer", "tests/viewer"]],
    ["prettier/bin/prettier.cjs", HERE, ["--config", "package.json", "--check", "../../viewer/*.js", "*.mjs"]],
])
    test(`${name.split("/")[0]} finds no error`, () => {
        const { status, stdout, stderr } = spawnSync(process.execPath, [`${HERE}node_modules/${name}`, ...words], {
            cwd: folder,
            encoding: "utf8",
        });
        assert.equal(status, 0, stdout + stderr);
    });
