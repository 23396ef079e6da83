'use strict';

const { Router } = require('./lib/router');
const { respond } = require('./lib/response');
const { application } = require('./lib/application');

module.exports = { application, respond, Router };
