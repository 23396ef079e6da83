'use strict';

const http = require('node:http');
const { Router } = require('./router');
const { respond } = require('./response');

/** A router that can be served. */
function application() {
  const router = new Router();
  const serve = (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    request.path = url.pathname;
    request.query = Object.fromEntries(url.searchParams);
    router.handle(request, respond(response), (error) => {
      if (response.writableEnded) return;
      response.status(error ? 500 : 404).json({ error: error ? error.message : 'not found' });
    });
  };
  return Object.assign(router, { listen: (...where) => http.createServer(serve).listen(...where) });
}

module.exports = { application };
