// Rules, who can touch a topic, and the record of it all.
import { readFileSync } from 'node:fs';

export async function walkAccess(kit) {
  const { page, base, ns, step, check, look, menu } = kit;

  await step('a rule is added', async () => {
    await page.goto(`${base}/n/${ns}/access`);
    await page.getByText('There are no rules: the scopes of keys').waitFor();
    await page.getByTestId('create-rule').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('deny', { exact: true }).click();
    await dialog.getByLabel('Whom', { exact: true }).fill('*');
    await dialog.getByLabel('Name or prefix', { exact: true }).fill('hello');
    await look('rule');
    await page.getByTestId('submit-rule').click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('cell', { name: 'everybody' }).waitFor();
    await look('access');
  });

  await step('the tester names the rule that decides', async () => {
    await page.getByLabel('API key', { exact: true }).fill('First key');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByLabel('Name', { exact: true }).fill('hello');
    await page.getByTestId('ask').click();
    const decision = page.getByTestId('decision');
    await decision.getByText('Denied', { exact: true }).waitFor();
    const text = (await decision.textContent()) ?? '';
    check(text.includes('acl_'), `no rule is named: ${text}`);
    await look('tester');
  });

  await step('who can touch a topic', async () => {
    await page.goto(`${base}/n/${ns}/topics/hello?tab=access`);
    const who = page.getByRole('region', { name: 'Who can touch it' });
    await who.getByText('member', { exact: true }).first().waitFor();
    await look('who');
    check(!((await who.textContent()) ?? '').includes('Send '), 'somebody may send against the rule');
  });

  await step('the audit log shows it, and is whole', async () => {
    await menu('Audit log');
    await page.getByRole('cell', { name: 'create access rule' }).first().waitFor();
    await page.getByTestId('verify-audit').click();
    await page
      .getByTestId('verification')
      .getByText(/^Whole: \d+ events/)
      .waitFor();
    await page.getByRole('button', { name: 'Expand row' }).first().click();
    await page.getByText('Hash in front').first().waitFor();
    await look('audit');
  });

  await step('events are filtered and saved as a file', async () => {
    await page.getByLabel('Operation', { exact: true }).fill('createAcl');
    await page.waitForURL('**/audit?action=createAcl');
    await page.getByRole('cell', { name: 'sign in' }).first().waitFor({ state: 'detached' });
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByTestId('export-audit').click()]);
    const lines = readFileSync(await file.path(), 'utf8')
      .trim()
      .split('\n');
    check(lines.length > 0 && lines.every((l) => JSON.parse(l).action === 'createAcl'), `odd file: ${lines[0]}`);
  });

  await step('refusals are counted and said in words', async () => {
    // As the server answers once brokers have refused somebody; the fields are those of the contract.
    await page.route(/\/v1\/audit-events(\?|$)/, async (r) => {
      const response = await r.fetch();
      const body = await response.json();
      Object.assign(body.items[0], {
        action: 'publish',
        actor_type: 'api_key',
        decision: 'denied',
        reason: 'permission_denied',
        count: 12,
        first_at: '2026-09-01T08:00:00.000Z',
        target_type: 'topic',
        target_id: 'hello',
      });
      body.items.push({ ...body.items[0], id: 'evt_1', action: 'doSomethingNew', reason: 'odd_reason', count: 1 });
      await r.fulfill({ response, json: body });
    });
    await page.goto(`${base}/audit`);
    await page.getByText('denied 12 times').waitFor();
    await page.getByText('The role does not allow it').first().waitFor();
    await page.getByText('do something new').waitFor();
    await kit.showsAllColumns('audit');
    await look('audit-refusals');
    await kit.onPhone('audit-refusals');
    await page.unroute(/\/v1\/audit-events(\?|$)/);
  });

  await step('rules are filtered', async () => {
    await page.goto(`${base}/n/${ns}/access?resource=group`);
    await page.getByText('Nothing matches these filters').waitFor();
    await page.getByRole('button', { name: 'Clear the filters' }).click();
    await page.getByRole('cell', { name: 'everybody' }).waitFor();
  });

  await step('the rule is deleted', async () => {
    await page.goto(`${base}/n/${ns}/access`);
    await page.getByRole('button', { name: /^Delete rule/ }).click();
    await page.getByTestId('confirm-name').fill('hello');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('There are no rules: the scopes of keys').waitFor();
  });
}
