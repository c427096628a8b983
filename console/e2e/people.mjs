// People: sessions, second factors, step-up, members and invitations.
import { codeOf, stepAt } from './totp.mjs';

/** `kit` is what console.e2e.mjs lends: the page, its address, the user and the checks. */
export async function walkPeople(kit) {
  const { page, base, step, check, look, refused, email, password, menu } = kit;

  await step('another session is seen and ended', async () => {
    await page.goto(`${base}/account`);
    const other = await kit.signInElsewhere('e2e-other-device/1');
    await kit.signInElsewhere('e2e-third-device/1');
    await menu('Account');
    const row = page.getByRole('row', { name: /e2e-other-device/ });
    await row.waitFor();
    await row.getByRole('button', { name: /^End the session of e2e-other-device/ }).click();
    await row.waitFor({ state: 'detached' });
    const me = await fetch(`${base}/v1/me`, { headers: { Authorization: `Bearer ${other}` } });
    check(me.status === 401, `the ended session still gets ${me.status}`);
    await page.getByTestId('end-others').click();
    await page
      .getByText(/^Sessions ended: \d+$/)
      .last()
      .waitFor();
    await look('account');
  });

  await step('a risky act asks for the password once, then goes on', async () => {
    await page.getByTestId('add-factor').click();
    const add = page.getByRole('dialog', { name: 'Add an authenticator app' });
    await page.route('**/v1/me/mfa-factors', (r) => r.fulfill({ status: 403, json: { code: 'step_up_required' } }), {
      times: 1,
    });
    await refused(async () => {
      await add.getByRole('button', { name: 'Next' }).click();
      const ask = page.getByRole('dialog', { name: 'Is it still you?' });
      await ask.getByLabel('Password', { exact: true }).fill('not the password');
      await ask.getByRole('button', { name: 'Go on' }).click();
      await ask
        .getByTestId('failed')
        .or(ask.getByTestId('refused'))
        .or(ask.locator('.ant-form-item-explain-error'))
        .first()
        .waitFor();
      await look('step-up');
      await ask.getByLabel('Password', { exact: true }).fill(password);
      await ask.getByRole('button', { name: 'Go on' }).click();
      await ask.waitFor({ state: 'hidden' });
    });
    await add.getByLabel('Six digits that the app shows').waitFor();
    await look('totp');
  });

  let secret = '';
  let used = 0;
  let recovery = '';
  await step('a second factor is added, recovery codes shown once', async () => {
    const add = page.getByRole('dialog', { name: 'Add an authenticator app' });
    secret = (await page.getByTestId('totp-secret').locator('code').textContent()) ?? '';
    used = stepAt(Date.now());
    await add.getByLabel('Six digits that the app shows').fill(codeOf(secret, used));
    await add.getByRole('button', { name: 'Confirm' }).click();
    const codes = (await page.getByTestId('recovery-codes').locator('pre').textContent()) ?? '';
    check(codes.trim().split('\n').length === 10, `not ten recovery codes: ${codes}`);
    recovery = codes.trim().split('\n')[0];
    await look('recovery-codes');
    await page.getByTestId('codes-stored').click();
    await page.getByRole('row', { name: /Authenticator app/ }).waitFor();
    check(!(await page.content()).includes(recovery), 'the recovery codes are still in the page');
  });

  await step('sign out, and in again with a code', async () => {
    await kit.signOut();
    await kit.enterPassword(email, password);
    await page.getByText('One more step for').waitFor();
    await look('sign-in-code');
    await refused(async () => {
      await page.getByLabel(/^Code from your authenticator app/).fill(codeOf(secret, used - 100));
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByText('The code is wrong, too old, or was used').waitFor();
    });
    // A code works once; the next one is accepted half a minute early.
    await page.getByLabel(/^Code from your authenticator app/).fill(codeOf(secret, used + 1));
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByTestId('account-menu').waitFor();
  });

  await step('a recovery code stands in for the app', async () => {
    await kit.signOut();
    await kit.enterPassword(email, password);
    await page.getByLabel(/^Code from your authenticator app/).fill(recovery);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByTestId('account-menu').waitFor();
  });

  await step('the second factor is removed, by name', async () => {
    await menu('Account');
    await page.getByRole('button', { name: 'Remove Authenticator app' }).click();
    await page.getByTestId('confirm-name').fill('Authenticator app');
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText('You have no second factor yet').waitFor();
  });
}

/** A colleague is invited by mail and accepts in a browser of their own. */
export async function walkMembers(kit) {
  const { page, base, step, check, look, menu } = kit;
  const colleague = kit.email.replace('@', '-colleague@');

  await step('a colleague is invited', async () => {
    await page.goto(`${base}/account`);
    await menu('Members');
    await page.getByTestId('invite').click();
    await page.getByRole('dialog').getByLabel('Mail address', { exact: true }).fill(colleague);
    await look('invite');
    await page.getByRole('button', { name: 'Send the invitation' }).click();
    await page
      .getByRole('row', { name: new RegExp(colleague) })
      .getByText('pending')
      .waitFor();
    await kit.showsAllColumns('members');
    await look('members');
  });

  await step('the colleague accepts with a new account', async () => {
    const link = await kit.mailTo(colleague, /\/invitations\/accept\?token=[\w-]+/);
    const other = await kit.newPage();
    await other.goto(`${base}${link}`);
    await other.getByText(`invites ${colleague} as developer`).waitFor();
    check(!other.url().includes('token'), 'the token stays in the address');
    await other.getByLabel('Your name', { exact: true }).fill('Colleague');
    await other.getByLabel('Choose a password', { exact: true }).fill(`${kit.password} too`);
    await kit.lookAt(other, 'accept');
    await other.getByRole('button', { name: 'Accept the invitation' }).click();
    await other.getByTestId('account-menu').waitFor();
    await other.context().close();
    await page.reload();
    await page.getByRole('region', { name: 'Members' }).getByText(colleague).waitFor();
  });

  await step('the colleague gets another role and is removed', async () => {
    await page.getByRole('button', { name: `Role of ${colleague}` }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Role', { exact: true }).click();
    await page.getByTitle('viewer: looks, changes nothing').click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('region', { name: 'Members' }).getByRole('cell', { name: 'viewer' }).waitFor();
    await page.getByRole('button', { name: `Remove ${colleague}` }).click();
    await page.getByTestId('confirm-name').fill(colleague);
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByRole('region', { name: 'Members' }).getByText(colleague).waitFor({ state: 'detached' });
  });
}
