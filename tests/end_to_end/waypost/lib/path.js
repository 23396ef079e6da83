'use strict';

/** A function that gives the parameters of a path, or null where the pattern does not match: `/users/:id`, `/files/*`. */
function compilePath(pattern, { prefix = false } = {}) {
  const names = [];
  const source = pattern
    .split('/')
    .map((part) => {
      if (part === '*') {
        names.push('rest');
        return '(.*)';
      }
      if (part.startsWith(':')) {
        names.push(part.slice(1));
        return '([^/]+)';
      }
      return part.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
    })
    .join('/');
  const matcher = new RegExp(`^${source.replace(/\/$/, '')}${prefix ? '(?=/|$)' : '/?$'}`);
  return (path) => {
    const found = matcher.exec(path);
    if (!found) return null;
    return Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(found[index + 1])]));
  };
}

module.exports = { compilePath };
