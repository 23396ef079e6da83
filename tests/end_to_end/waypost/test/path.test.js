'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { compilePath } = require('../lib/path');

test('a pattern without parameters matches itself', () => {
  assert.deepStrictEqual(compilePath('/users')('/users/'), {});
  assert.strictEqual(compilePath('/users')('/users/1'), null);
});

test('parameters are decoded', () => {
  assert.deepStrictEqual(compilePath('/users/:name')('/users/J%C3%BCrgen'), { name: 'Jürgen' });
  assert.deepStrictEqual(compilePath('/files/*')('/files/a/b.txt'), { rest: 'a/b.txt' });
});

test('a prefix ends where a part ends', () => {
  const matches = compilePath('/api', { prefix: true });
  assert.deepStrictEqual(matches('/api/users'), {});
  assert.strictEqual(matches('/apis'), null);
});
