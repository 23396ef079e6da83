'use strict';

// One line per finding, `path:line:column: message`; exit code 1 when there is any.
const { readdirSync, readFileSync } = require('node:fs');
const { join, relative } = require('node:path');

const root = join(__dirname, '..');
const files = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) return /^(\.|node_modules)/.test(entry.name) ? [] : files(join(folder, entry.name));
    return entry.name.endsWith('.js') ? [join(folder, entry.name)] : [];
  });

const RULES = [
  [/\s+$/, 'trailing space'],
  [/\t/, 'tab'],
  [/\bvar\s/, 'an old declaration instead of const or let'],
];

const findings = files(root)
  .sort()
  .flatMap((file) => {
    const lines = readFileSync(file, 'utf8').split('\n');
    const name = relative(root, file);
    const strict = lines[0] === "'use strict';" ? [] : [`${name}:1:1: no 'use strict'`];
    const rest = lines.flatMap((line, index) =>
      RULES.filter(([rule]) => rule.test(line)).map(
        ([rule, message]) => `${name}:${index + 1}:${line.search(rule) + 1}: ${message}`,
      ),
    );
    return [...strict, ...rest];
  });

for (const finding of findings) process.stdout.write(`${finding}\n`);
process.exitCode = findings.length ? 1 : 0;
