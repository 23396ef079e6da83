'use strict';

const { compilePath } = require('./path');

/** Routes and middleware in the order in which they were added. */
class Router {
  constructor() {
    this.layers = [];
  }

  /** Add middleware `(request, response, next)`, or an error handler with four parameters, below a path. */
  use(path, ...handlers) {
    if (typeof path === 'function') return this.use('/', path, ...handlers);
    return this.add(null, compilePath(path, { prefix: true }), handlers);
  }

  get(path, ...handlers) {
    return this.add('GET', compilePath(path), handlers);
  }

  post(path, ...handlers) {
    return this.add('POST', compilePath(path), handlers);
  }

  delete(path, ...handlers) {
    return this.add('DELETE', compilePath(path), handlers);
  }

  add(method, matches, handlers) {
    for (const handler of handlers) this.layers.push({ method, matches, handler });
    return this;
  }

  /** Run what matches, one after the other; `done(error)` when nothing has answered. */
  handle(request, response, done) {
    let index = 0;
    const next = (error) => {
      const layer = this.layers[index++];
      if (!layer) return done(error);
      const params = layer.matches(request.path);
      if (!params || (layer.method && layer.method !== request.method)) return next(error);
      if ((layer.handler.length === 4) !== Boolean(error)) return next(error);
      request.params = params;
      try {
        const result = error
          ? layer.handler(error, request, response, next)
          : layer.handler(request, response, next);
        if (result && typeof result.catch === 'function') result.catch(next);
      } catch (thrown) {
        next(thrown);
      }
    };
    next();
  }
}

module.exports = { Router };
