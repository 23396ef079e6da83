'use strict';

/** Helpers for one response. */
function respond(response) {
  return Object.assign(response, {
    status(code) {
      response.statusCode = code;
      return response;
    },
    type(name) {
      response.setHeader('Content-Type', name);
      return response;
    },
    send(body) {
      if (!response.hasHeader('Content-Type')) response.type('text/html; charset=utf-8');
      response.setHeader('Content-Length', Buffer.byteLength(body));
      response.end(body);
    },
    json(value) {
      response.type('application/json').send(JSON.stringify(value));
    },
    redirect(location, code = 302) {
      response.status(code).setHeader('Location', location);
      response.end();
    },
  });
}

module.exports = { respond };
