// The way of a new user through the console, in a real browser against a running server. Prints one line for each step
// with its time; exit code 0 only when all passed and the browser reported no error.
//
//   SLUICE_URL=http://127.0.0.1:8080 SLUICE_TEST_CHROMIUM=/usr/bin/chromium node e2e/console.e2e.mjs
//
// SLUICE_E2E_SHOTS=folder keeps a picture of every page; SLUICE_E2E_ONLY=people,account,members,keys,roles,security,
// access walks only these after the sign-up, to look at a page while it is made.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { walkAccess } from './access.mjs';
import { walkAccount } from './account.mjs';
import { walkMembers, walkPeople } from './people.mjs';
import { walkKeys, walkRoles, walkSecurity } from './rights.mjs';

const base = (process.env.SLUICE_URL ?? 'http://127.0.0.1:8080').replace(/\/$/, '');
const executablePath = process.env.SLUICE_TEST_CHROMIUM ?? '/usr/bin/chromium';
const shots = process.env.SLUICE_E2E_SHOTS;
const only = process.env.SLUICE_E2E_ONLY?.split(',');
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const stamp = Date.now().toString(36);
const email = `console-${stamp}@example.com`;
const password = `correct horse ${stamp}`;
const patience = 20_000;

const parts = {
  people: walkPeople,
  account: walkAccount,
  members: walkMembers,
  keys: walkKeys,
  roles: walkRoles,
  security: walkSecurity,
  access: walkAccess,
};

const started = performance.now();
const failures = [];
const inaccessible = [];
let page;

async function step(name, run) {
  const at = performance.now();
  try {
    const note = await run();
    console.log(`ok   ${name.padEnd(44)} ${took(at)}${note ? `  ${note}` : ''}`);
  } catch (err) {
    console.log(`FAIL ${name.padEnd(44)} ${took(at)}`);
    console.log(
      `     ${String(err?.message ?? err)
        .split('\n')
        .slice(0, 40)
        .join('\n     ')}`,
    );
    if (shots) {
      await page?.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, '-')}.png`), fullPage: true });
    }
    throw err;
  }
}

function took(at) {
  return `${String(Math.round(performance.now() - at)).padStart(6)} ms`;
}

function check(ok, what) {
  if (!ok) {
    throw new Error(what);
  }
}

/** A picture when asked for, and every rule of WCAG 2 A and AA that axe knows. */
async function look(name) {
  await lookAt(page, name);
}

async function lookAt(page, name) {
  if (shots) {
    await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
  }
  // The page's policy allows no foreign script; evaluating from outside is not bound by it.
  await page.evaluate(axeSource);
  const found = await page.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }),
  );
  const bad = found.violations.map(
    (v) =>
      `${v.id}: ${v.nodes
        .slice(0, 3)
        .map((n) => `${n.target.join(' ')} ${n.failureSummary?.split('\n')[1] ?? ''}`)
        .join(' | ')}`,
  );
  inaccessible.push(...bad.map((b) => `${name}: ${b}`));
}

/** Nothing makes the whole page scroll sideways, and nothing that is clicked sticks out of the card it stands in. */
async function fits(name) {
  const found = await page.evaluate(() => {
    const seen = document.documentElement.clientWidth;
    const out = [];
    if (document.documentElement.scrollWidth > seen) {
      out.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${seen}`);
    }
    for (const el of document.querySelectorAll('main button, main label, main [role=combobox]')) {
      const card = el.closest('.panel, .light-main, #content');
      const [a, b] = [el.getBoundingClientRect(), card?.getBoundingClientRect()];
      if (b && a.width > 0 && !el.closest('.table-scroll, pre') && (a.right > b.right || a.left < b.left)) {
        out.push(`${el.outerHTML.slice(0, 80)} ends at ${a.right}, its card at ${b.right}`);
      }
    }
    return out;
  });
  check(found.length === 0, `${name}: ${found.join('; ')}`);
}

/** All columns of the tables of the page are in sight without scrolling. */
async function showsAllColumns(name) {
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll('.table-scroll')]
      .filter((s) => s.scrollWidth > s.clientWidth)
      .map((s) => `${s.getAttribute('aria-label')} is ${s.scrollWidth} wide in ${s.clientWidth}`),
  );
  check(cut.length === 0, `${name}: ${cut.join('; ')}`);
}

/** What the pattern finds in the newest mail to the address, from the folder that the server keeps mails in. */
async function mailTo(address, pattern) {
  const until = performance.now() + patience;
  for (;;) {
    const { items } = await (await fetch(`${base}/mailbox.json`)).json();
    const mine = items.find((m) => m.to.includes(address));
    const found = mine && pattern.exec(mine.body)?.[0];
    if (found) {
      return found;
    }
    check(performance.now() < until, `no mail with ${pattern} to ${address} in ${base}/mailbox`);
    await new Promise((r) => setTimeout(r, 150));
  }
}

async function main() {
  if (shots) {
    mkdirSync(shots, { recursive: true });
  }
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  // Without motion, so that colours are not measured half way between two themes.
  const context = await browser.newContext({
    locale: 'en-US',
    reducedMotion: 'reduce',
    viewport: { width: 1280, height: 900 },
  });
  page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.on('console', (m) => m.type() === 'error' && failures.push(`console: ${m.text()} (${m.location().url})`));
  page.on('pageerror', (e) => failures.push(`page error: ${e.message}`));
  page.on('response', (r) => {
    const url = new URL(r.url());
    for (const secret of ['sls_', password]) {
      if (decodeURIComponent(url.href).includes(secret)) {
        failures.push(`a secret stands in the address ${url.pathname}`);
      }
    }
  });
  try {
    await walk(context);
    await step('WCAG 2.2 A and AA on every page', async () =>
      check(inaccessible.length === 0, inaccessible.join('\n')),
    );
    await step('no errors in the browser', async () => check(failures.length === 0, failures.join('\n')));
  } finally {
    await browser.close();
  }
  console.log(`console: ok in ${Math.round(performance.now() - started)} ms`);
}

async function walk(context) {
  let ns = '';

  /** Sends as another program would: not through the page, with a session of its own. */
  async function send(topic, body) {
    const response = await fetch(`${base}/v1/namespaces/${ns}/topics/${topic}/messages`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${await accessToken()}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ body }),
    });
    check(response.status === 201, `send answered ${response.status}: ${await response.text()}`);
  }

  let arrivedAfter = 0;

  await step('sign-up page opens', async () => {
    await page.goto(`${base}/sign-up`);
    await page.getByRole('button', { name: 'Create the account' }).waitFor();
    const policy = (await (await fetch(`${base}/sign-up`)).headers.get('content-security-policy')) ?? '';
    check(!/script-src[^;]*unsafe/.test(policy), `the policy allows inline scripts: ${policy}`);
    await look('sign-up');
  });

  await step('wrong input is named beside its field', async () => {
    await page.getByLabel('Mail address', { exact: true }).fill('nobody');
    await page.getByLabel('Password', { exact: true }).fill('short');
    await page.getByRole('button', { name: 'Create the account' }).click();
    await page.getByText('Too short: at least 10 characters').waitFor();
  });

  await step('sign-up', async () => {
    await page.getByLabel('Mail address', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByLabel('Organisation', { exact: true }).fill(`Console ${stamp}`);
    const at = performance.now();
    await page.getByRole('button', { name: 'Create the account' }).click();
    await page.waitForURL('**/verify');
    arrivedAfter = at;
    await look('verify');
  });

  await step('verify with the code from the mail', async () => {
    const code = await mailTo(email, /(?<!\d)\d{6}(?!\d)/);
    await page.getByLabel('Code from the mail', { exact: true }).fill(code);
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.waitForURL('**/start?ns=*');
    ns = new URL(page.url()).searchParams.get('ns') ?? '';
    check(/^[a-z0-9]{8,16}$/.test(ns), `no namespace in ${page.url()}`);
  });

  if (only) {
    for (const part of only) {
      await parts[part](kit(ns, context));
    }
    return;
  }

  await step('send the first message and see it arrive', async () => {
    await page.getByTestId('send-first').click();
    await page.getByTestId('first-arrived').waitFor();
    await page.getByTestId('arrivals').getByText('from the console').waitFor();
    check(
      (await page.getByTestId('own-code').textContent())?.includes('Waiting'),
      'a message from the console counts as one from own code',
    );
    return `${Math.round(performance.now() - arrivedAfter)} ms after the sign-up was sent`;
  });

  await step('snippets are filled in', async () => {
    for (const tab of await page.getByRole('tab').all()) {
      await tab.click();
      await page.getByTestId('snippet-text').waitFor();
      const text = (await page.getByTestId('snippet-text').textContent()) ?? '';
      // The command line signs in as the person; all others as the key.
      const filled = (/slk_/.test(text) && /sls_/.test(text)) || text.includes('sluice login');
      check(filled, `${await tab.textContent()}: key or secret is missing`);
    }
    const kept = await page.evaluate(() =>
      JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
    );
    check(!kept.includes('sls_') && !kept.includes('eyJ'), `a secret is kept in the browser: ${kept}`);
    await look('start');
  });

  await step('a message from own code turns the panel green', async () => {
    await send('hello', 'from elsewhere');
    await page.getByText('A message from your own code has arrived').waitFor();
  });

  await step('console opens on the topics', async () => {
    await page.getByTestId('to-console').click();
    await page.waitForURL(`**/n/${ns}/topics`);
    await page.getByRole('link', { name: 'hello', exact: true }).waitFor();
    await look('topics');
  });

  await step('create a topic', async () => {
    await page.getByTestId('create-topic').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill('orders');
    await dialog.getByText('sluice topic create orders').waitFor();
    await dialog.getByRole('tab', { name: 'Terraform' }).click();
    await dialog.getByText('resource "sluice_topic" "orders"').waitFor();
    await page.getByTestId('submit-topic').click();
    await page.waitForURL(`**/n/${ns}/topics/orders`);
    await page.getByRole('heading', { name: /orders/ }).waitFor();
    await dialog.waitFor({ state: 'hidden' });
    await look('topic');
  });

  await step('the same name again is refused and says so', async () => {
    await page.goto(`${base}/n/${ns}/topics`);
    await page.getByTestId('create-topic').click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('orders');
    // The refusal is the point here; the browser logs it as a failed load.
    const before = failures.length;
    await page.getByTestId('submit-topic').click();
    await page.getByRole('dialog').locator('.ant-form-item-explain-error').waitFor();
    failures.splice(before);
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  });

  await step('send to it, tail it, find it', async () => {
    await page.goto(`${base}/n/${ns}/topics/orders?tab=send`);
    await page.getByLabel('Body', { exact: true }).fill('{"order":9007199254740993}');
    await page.getByLabel('Tag', { exact: true }).fill('created');
    await page.getByLabel('Keys', { exact: true }).fill('customer-7 order-4711');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText(/Stored in queue \d+ at offset 0/).waitFor();
    await page.getByRole('tab', { name: 'Messages' }).click();
    await page.getByText('9007199254740993').first().waitFor();
    await page.getByRole('button', { name: 'Expand row' }).click();
    await page.getByText('Delivered again').waitFor();
    await look('messages');
    await page.getByText('Key', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Key' }).fill('order-4711');
    await page.keyboard.press('Enter');
    await page.waitForURL('**by=key&key=order-4711');
    await page.getByText('9007199254740993').first().waitFor();
    await page.getByRole('textbox', { name: 'Key' }).fill('order-4712');
    await page.keyboard.press('Enter');
    await page.getByText('No message of this topic has this key').waitFor();
  });

  await step('live tail shows what arrives, and leaving ends it', async () => {
    const ended = page.waitForEvent('requestfailed', { predicate: (r) => r.url().includes('/orders/tail') });
    await page.getByRole('tab', { name: 'Live tail' }).click();
    await page.getByText('live', { exact: true }).waitFor();
    await send('orders', 'seen in the tail');
    await page.getByText('seen in the tail').waitFor();
    await look('tail');
    await page.getByRole('tab', { name: 'Overview' }).click();
    await ended;
  });

  await step('filters stay in the address, and back goes back', async () => {
    await page.goto(`${base}/n/${ns}/topics`);
    await page.getByLabel('Name begins with').fill('ord');
    await page.waitForURL('**/topics?prefix=ord');
    await page.getByRole('link', { name: 'orders', exact: true }).click();
    await page.waitForURL('**/topics/orders');
    await page.goBack();
    await page.waitForURL('**/topics?prefix=ord');
    check((await page.getByLabel('Name begins with').inputValue()) === 'ord', 'the filter is gone');
    await page.getByLabel('Name begins with').fill('nothing-like-this');
    await page.getByText('Nothing matches these filters').waitFor();
  });

  await step('groups and lag', async () => {
    await page.getByRole('link', { name: 'Consumer groups' }).click();
    await page.getByRole('link', { name: 'hello-group' }).click();
    await page.getByTestId('lag').waitFor();
    await look('group');
  });

  await step('create a key, secret shown once', async () => {
    await page.getByRole('link', { name: 'API keys' }).click();
    await page.getByTestId('create-key').click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Name', { exact: true }).fill('billing');
    await look('key-dialog');
    await page.getByTestId('submit-key').click();
    const secret = (await page.getByTestId('secret').textContent()) ?? '';
    check(secret.includes('sls_'), `no secret in ${secret}`);
    await page.getByTestId('secret-stored').click();
    await page.getByTestId('key-name').getByText('billing', { exact: true }).waitFor();
    check(!(await page.content()).includes('sls_'), 'the secret is still in the page');
    await showsAllColumns('keys');
    await look('keys');
  });

  await step('its actions stay in sight in a narrow window', async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 800, height: size.height });
    const region = await page.getByRole('region', { name: 'API keys' }).boundingBox();
    for (const action of ['Rotate billing', 'Revoke billing']) {
      const box = await page.getByRole('button', { name: action }).boundingBox();
      check(box.x >= region.x && box.x + box.width <= region.x + region.width, `${action} is out of sight`);
    }
    await page.setViewportSize(size);
  });

  await step('revoke it, by name', async () => {
    await page.getByRole('button', { name: 'Revoke billing' }).click();
    const ok = page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true });
    check(await ok.isDisabled(), 'revoking is possible without the name');
    await page.getByTestId('confirm-name').fill('billing');
    await ok.click();
    await page.getByRole('cell', { name: 'revoked' }).waitFor();
  });

  await step('usage with chart', async () => {
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByTestId('complete-through').waitFor();
    const until = performance.now() + 90_000;
    // Usage is collected a little later than it happens.
    while (Number(((await page.getByTestId('total-messages_in').getAttribute('title')) ?? '0').trim()) < 4) {
      check(performance.now() < until, 'the four messages do not show up in the usage');
      await page.waitForTimeout(1000);
      await page.getByRole('button', { name: 'Refresh' }).click();
    }
    await page.getByTestId('usage-chart').locator('canvas').waitFor();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByTestId('usage-csv').click()]);
    const csv = readFileSync(await file.path(), 'utf8');
    check(csv.startsWith('from,to,') && csv.includes('hello'), `odd CSV: ${csv.slice(0, 200)}`);
    await showsAllColumns('usage');
    await look('usage');
  });

  for (const [link, heading] of [
    ['Costs', 'Costs'],
    ['Quotas', 'Quotas'],
    ['Account', 'Account'],
    ['Namespaces', 'Namespaces'],
  ]) {
    await step(`${link.toLowerCase()} page`, async () => {
      await page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name: link, exact: true }).click();
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
      await page.getByTestId('loading').first().waitFor({ state: 'detached' });
      check((await page.getByTestId('failed').count()) === 0, `${link} failed`);
      await showsAllColumns(link);
      await look(link.toLowerCase());
    });
  }

  await step('costs are in the words and units of people', async () => {
    await page.getByRole('link', { name: 'Costs' }).click();
    await page.getByText('per million units').waitFor();
    const month = await page.getByLabel('Month', { exact: true }).inputValue();
    check(month === new Date().toISOString().slice(0, 7), `the running month is shown as "${month}"`);
    await page.getByText('per GiB-hour').waitFor();
    const text = (await page.locator('#content').textContent()).replace(/\s+/g, ' ');
    check(!/billable_units|unit_4k|byte_ms|stored_/.test(text), `raw codes: ${text}`);
    await page.getByLabel('Month', { exact: true }).fill('2026-09');
    await page.waitForURL('**/costs?month=2026-09');
    await page.goBack();
    await page.waitForURL('**/costs');
  });

  await step('quotas have names', async () => {
    await page.getByRole('link', { name: 'Quotas' }).click();
    await page.getByTitle(/^\d of 50 api_keys$/).waitFor();
    await page.getByText('up to 100 MiB/s').waitFor();
    check((await page.getByTitle('up to 104,857,600 bytes/s').count()) > 0, 'the exact rate is not in the title');
    check(!/[a-z]_[a-z]/.test((await page.locator('#content').textContent()) ?? ''), 'raw codes');
  });

  await step('retries are named in words', async () => {
    // As the server answers once a consumer has sent a message back.
    const answers = [/\/groups\/hello-group\/lag$/, /\/v1\/usage\?/];
    const queues = [{ queue: 0, lag: '2', committed_offset: '1', min_offset: '0', max_offset: '3' }];
    const topics = [{ topic: '%RETRY%hello-group', lag: '2', queues }];
    await page.route(answers[0], (r) => r.fulfill({ json: { lag: '2', as_of: new Date().toISOString(), topics } }));
    await page.route(answers[1], async (r) => {
      const response = await r.fetch();
      await r.fulfill({ response, body: (await response.text()).replaceAll('"hello"', '"%RETRY%hello-group"') });
    });
    await page.goto(`${base}/n/${ns}/groups/hello-group`);
    await page.getByRole('link', { name: 'retries of hello-group' }).waitFor();
    check((await page.getByTitle('%RETRY%hello-group').count()) === 1, 'the exact name is not in the title');
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('cell', { name: 'retries of hello-group' }).first().waitFor();
    await page.getByTestId('usage-chart').getByText('retries of hello-group').waitFor();
    await look('retries');
    for (const a of answers) {
      await page.unroute(a);
    }
  });

  const everyPage = [
    `/n/${ns}/topics`,
    `/n/${ns}/topics/orders`,
    `/n/${ns}/groups/hello-group`,
    '/namespaces',
    '/api-keys',
    '/usage',
    '/costs',
    '/quotas',
    '/account',
    '/members',
    '/roles',
    '/service-accounts',
    '/security',
    `/n/${ns}/access`,
    '/audit',
    `/start?ns=${ns}`,
  ];

  async function visit(path) {
    await page.goto(`${base}${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const loaded = path.startsWith('/start') ? page.getByTestId('snippet-text') : page.locator('#content h1');
    await loaded.waitFor();
    await page.waitForFunction(() => !document.querySelector('[data-testid=loading]'));
  }

  await step('a phone of 390 pixels scrolls no page sideways', async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    for (const path of everyPage) {
      await visit(path);
      await fits(path);
      await look(`phone${path.replace(/\W+/g, '-')}`);
    }
    await page.goto(`${base}/audit`);
    const nav = page.getByRole('navigation', { name: 'Console' });
    const menu = nav.getByRole('button', { name: 'Menu' });
    check(!(await nav.getByRole('link', { name: 'Roles' }).isVisible()), 'the menu is open before it is asked for');
    await menu.click();
    await fits('menu');
    await look('phone-menu');
    await nav.getByRole('link', { name: 'Roles' }).click();
    await page.waitForURL('**/roles');
    await nav.getByRole('link', { name: 'Audit log' }).waitFor({ state: 'hidden' });
    await page.setViewportSize(size);
  });

  await step('a session that ends keeps the form', async () => {
    await page.goto(`${base}/n/${ns}/topics`);
    await page.getByTestId('create-topic').click();
    await page.getByRole('dialog').getByLabel('Name', { exact: true }).fill('kept');
    // The token is refused once and there is no cookie to get another with: the refusals are the point here.
    const before = failures.length;
    await context.clearCookies();
    await page.route('**/topics?wait=10s', (r) => r.fulfill({ status: 401, json: { code: 'token_expired' } }), {
      times: 1,
    });
    await page.getByTestId('submit-topic').click();
    const again = page.getByRole('dialog', { name: 'Your session has ended' });
    await again.getByLabel('Password', { exact: true }).fill(password);
    await look('reauth');
    await again.getByRole('button', { name: 'Sign in' }).click();
    await again.waitFor({ state: 'hidden' });
    failures.splice(before);
    await page.getByTestId('submit-topic').click();
    await page.waitForURL(`**/n/${ns}/topics/kept`);
  });

  for (const part of Object.values(parts)) {
    await part(kit(ns, context));
  }

  await step('an odd address shows a page, not a white screen', async () => {
    await page.goto(`${base}/there/is/no/such/page`);
    await page.getByText('There is no such page').waitFor();
  });

  await step('dark theme', async () => {
    await page.goto(`${base}/n/${ns}/topics`);
    await page.getByLabel('Theme', { exact: true }).selectOption('dark');
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor();
    await look('topics-dark');
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByTestId('usage-chart').locator('canvas').waitFor();
    await look('usage-dark');
    for (const path of everyPage) {
      await visit(path);
      await look(`dark${path.replace(/\W+/g, '-')}`);
    }
  });

  await step('Chinese', async () => {
    await page.goto(`${base}/usage`);
    await page.getByTestId('language').selectOption('zh');
    await page.getByRole('heading', { name: '用量', level: 1 }).waitFor();
    check((await page.evaluate(() => document.documentElement.lang)) === 'zh-CN', 'lang is not zh-CN');
    await page.getByRole('link', { name: '主题', exact: true }).click();
    await page.getByRole('link', { name: 'orders', exact: true }).waitFor();
    await look('topics-zh');
    for (const path of everyPage) {
      await visit(path);
      const headings = await page.getByRole('heading').allTextContents();
      const foreign = headings.filter((h) => /[a-z]/.test(h) && !/\p{Script=Han}|^(orders|hello-group)/u.test(h));
      check(foreign.length === 0, `${path} has headings that are not Chinese: ${foreign}`);
      await look(`zh${path.replace(/\W+/g, '-')}`);
    }
    await page.goto(`${base}/n/${ns}/topics`);
  });

  await step('the language of mails is another than the one of the console', async () => {
    await page.getByRole('link', { name: '账号', exact: true }).click();
    const marked = (field) => page.getByTestId(field).locator('.ant-segmented-item-selected');
    await marked('console-language').getByText('中文').waitFor();
    await marked('mail-language').getByText('English').waitFor();
    await page.getByTestId('mail-language').getByText('中文').click();
    await marked('mail-language').getByText('中文').waitFor();
    await look('account-zh');
    await page.getByTestId('mail-language').getByText('English').click();
    await marked('mail-language').getByText('English').waitFor();
    await marked('console-language').getByText('中文').waitFor();
    await page.getByRole('link', { name: '主题', exact: true }).click();
  });

  await step('a reload keeps the session and the language', async () => {
    await page.reload();
    await page.getByRole('heading', { name: '主题', level: 1 }).waitFor();
  });

  await step('sign out, and sign in again where one was', async () => {
    await page.getByTestId('account-menu').click();
    await page.getByRole('menuitem', { name: '退出登录' }).click();
    await page.waitForURL('**/sign-in');
    await page.goto(`${base}/quotas`);
    await page.waitForURL('**/sign-in?next=*');
    await look('sign-in-zh-dark');
    await page.getByLabel('邮箱地址').fill(email);
    await page.getByLabel('密码').fill('not the password');
    // The refusal is the point here; the browser logs it as a failed load.
    const before = failures.length;
    await page.getByRole('button', { name: '登录' }).click();
    await page.getByText('邮箱地址或密码错误').waitFor();
    failures.splice(before);
    await page.getByLabel('密码').fill(password);
    await page.getByRole('button', { name: '登录' }).click();
    await page.waitForURL('**/quotas');
    await page.getByTestId('quotas').first().waitFor();
  });
}

/** What the walks of other files need of this one. */
function kit(ns, context) {
  return {
    page,
    base,
    ns,
    step,
    check,
    look,
    lookAt,
    fits,
    showsAllColumns,
    /** The page as it is now, on a phone. */
    async onPhone(name) {
      const size = page.viewportSize();
      await page.setViewportSize({ width: 390, height: 844 });
      // What depends on the width is drawn again a moment later; what still sticks out then is told by fits.
      await page
        .waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)
        .catch(() => undefined);
      await fits(name);
      await look(`phone-${name}`);
      await page.setViewportSize(size);
    },
    email,
    password,
    mailTo,
    menu: (name) => page.getByRole('navigation', { name: 'Console' }).getByRole('link', { name, exact: true }).click(),
    /** A page of a browser that knows nothing of this one. */
    async newPage() {
      const other = await context.browser().newContext({ locale: 'en-US', reducedMotion: 'reduce' });
      const fresh = await other.newPage();
      fresh.setDefaultTimeout(patience);
      fresh.on('pageerror', (e) => failures.push(`page error: ${e.message}`));
      return fresh;
    },
    /** Runs what the server is meant to refuse; the browser logs that as a failed load. */
    async refused(run) {
      const before = failures.length;
      await run();
      failures.splice(before);
    },
    /** Another person with an organisation of their own, named after the address. */
    async signUpElsewhere(who) {
      await post('/v1/auth/sign-up', { email: who, password, tenant_name: `Own ${who}`, locale: 'en' });
      await post('/v1/auth/verify', { email: who, code: await mailTo(who, /(?<!\d)\d{6}(?!\d)/) });
    },
    signInElsewhere: (agent) => accessToken({ 'User-Agent': agent }),
    async signOut() {
      await page.getByTestId('account-menu').click();
      await page.getByRole('menuitem', { name: 'Sign out' }).click();
      await page.waitForURL('**/sign-in');
    },
    async enterPassword(who, secret) {
      await page.getByLabel('Mail address', { exact: true }).fill(who);
      await page.getByLabel('Password', { exact: true }).fill(secret);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    },
  };
}

async function post(path, body, more = {}) {
  const response = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...more },
    body: JSON.stringify(body),
  });
  check(response.ok, `${path} answered ${response.status}`);
  return response.json();
}

/** A session of its own, as another program would have. */
async function accessToken(more = {}) {
  return (await post('/v1/auth/sign-in', { email, password }, more)).access_token;
}

main().catch((err) => {
  if (!(err instanceof Error)) {
    console.error(err);
  }
  for (const f of failures) {
    console.log(`     ${f}`);
  }
  process.exitCode = 1;
});
