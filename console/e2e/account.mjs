// What a person does with their own account: a security key, a change of the mail address that was not theirs, closing
// the account and reopening it by the links of the mails.

export async function walkAccount(kit) {
  const { step, check } = kit;
  // Browsers bind security keys to host names, not to addresses.
  const base = kit.base.replace('127.0.0.1', 'localhost');
  const email = kit.email.replace('@', '-own@');
  const other = kit.email.replace('@', '-new@');
  const page = await kit.newPage();
  const keys = await securityKeys(page);
  const look = (name) => kit.lookAt(page, name);
  const inConsole = () => page.getByTestId('account-menu').waitFor();

  async function signIn(who) {
    await page.goto(`${base}/sign-in`);
    await page.getByLabel('Mail address', { exact: true }).fill(who);
    await page.getByLabel('Password', { exact: true }).fill(kit.password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  }

  await step('a security key is added', async () => {
    await kit.signUpElsewhere(email);
    await signIn(email);
    await inConsole();
    await page.goto(`${base}/account`);
    await page.getByTestId('add-security-key').click();
    const dialog = page.getByRole('dialog', { name: 'Add a security key or passkey' });
    await dialog.getByLabel(/^Name/).fill('blue key');
    await look('security-key-dialog');
    await keys.absent();
    await dialog.getByRole('button', { name: 'Next' }).click();
    await dialog.getByText('No security key answered').waitFor();
    await keys.present();
    await dialog.getByRole('button', { name: 'Try again' }).click();
    const codes = (await page.getByTestId('recovery-codes').locator('pre').textContent()) ?? '';
    check(codes.trim().split('\n').length === 10, `not ten recovery codes: ${codes}`);
    await page.getByTestId('codes-stored').click();
    const row = page.getByRole('row', { name: /blue key/ });
    await row.getByText('security key or passkey').waitFor();
    await page.getByTestId('codes-left').getByText('Recovery codes left: 10').waitFor();
    await look('account-security-key');
  });

  await step('sign in with the security key', async () => {
    await page.getByTestId('account-menu').click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    await signIn(email);
    await page.getByTestId('use-security-key').waitFor();
    await look('sign-in-security-key');
    await keys.absent();
    await page.getByTestId('use-security-key').click();
    await page.getByText('No security key answered').waitFor();
    await keys.present();
    await page.getByTestId('use-security-key').click();
    await inConsole();
  });

  await step('a risky act is proved with the security key', async () => {
    await page.goto(`${base}/account`);
    await page.getByTestId('codes-left').waitFor();
    const refused = (r) => r.fulfill({ status: 403, json: { code: 'step_up_required' } });
    await page.route('**/actions/renew-recovery-codes', refused, { times: 1 });
    await page.getByRole('button', { name: 'Make new recovery codes' }).click();
    const ask = page.getByRole('dialog', { name: 'Is it still you?' });
    await ask.getByLabel('Password', { exact: true }).fill(kit.password);
    await ask.getByRole('button', { name: 'Go on' }).click();
    await ask.getByTestId('use-security-key').waitFor();
    await look('step-up-security-key');
    await keys.absent();
    await ask.getByTestId('use-security-key').click();
    await ask.getByText('No security key answered').waitFor();
    await keys.present();
    await ask.getByTestId('use-security-key').click();
    await ask.waitFor({ state: 'hidden' });
    await page.getByTestId('recovery-codes').waitFor();
    await page.getByTestId('codes-stored').click();
  });

  await step('the mail address is changed, and changed back by the link in the mail', async () => {
    await page.goto(`${base}/account`);
    await page.getByRole('button', { name: 'Change the mail address' }).click();
    const dialog = page.getByRole('dialog', { name: 'Change the mail address' });
    await dialog.getByLabel('New mail address', { exact: true }).fill(other);
    await dialog.getByRole('button', { name: 'Send the code' }).click();
    await dialog.getByLabel('Code from the mail', { exact: true }).waitFor();
    const code = await kit.mailTo(other, /(?<!\d)\d{6}(?!\d)/);
    await dialog.getByLabel('Code from the mail', { exact: true }).fill(code);
    await dialog.getByRole('button', { name: 'Confirm' }).click();
    await page.getByTestId('account-menu').getByText(other).waitFor();
    const link = await kit.mailTo(email, /(?<=Enter it at \S+)\/undo-email/);
    const undo = await kit.mailTo(email, /(?<=\n)[0-9A-Za-z]{16,64}(?=\r?\n)/);
    await page.goto(`${base}${link}`);
    await page.getByLabel('Mail address', { exact: true }).fill(email);
    await page.getByLabel('Code from that mail', { exact: true }).fill(`${undo}x`);
    await page.getByRole('button', { name: 'Put the old address back' }).click();
    await page.getByText('The code is wrong, too old or was used').waitFor();
    await look('undo-email');
    await page.getByLabel('Code from that mail', { exact: true }).fill(undo);
    await page.getByRole('button', { name: 'Put the old address back' }).click();
    await page.getByText(`${email} is the address of your account again`).waitFor();
    await look('undo-email-done');
    await page.getByRole('button', { name: 'Set a new password' }).click();
    await page.waitForURL('**/password-reset');
    check(
      (await page.getByLabel('Mail address', { exact: true }).inputValue()) === email,
      'the address is not filled in',
    );
    await page.goto(`${base}/account`);
    await page.waitForURL('**/sign-in?next=*');
  });

  await step('the account is closed, and says what comes of it', async () => {
    await signIn(email);
    await page.getByTestId('use-security-key').click();
    await inConsole();
    await page.goto(`${base}/account`);
    await page.getByTestId('close-account').click();
    const dialog = page.getByRole('dialog', { name: 'Close your account' });
    await dialog.getByText(`Own ${email}`).waitFor();
    await look('close-account');
    await page.getByTestId('confirm-name').fill(email);
    await dialog.getByRole('button', { name: 'Close my account' }).click();
    await page.waitForURL('**/reopen?until=*');
    await page.getByText(/^Your account is closed/).waitFor();
    await look('reopen-closed');
  });

  await step('sign-in says that it is closed and leads to where it is reopened', async () => {
    await signIn(email);
    await page.getByTestId('use-security-key').click();
    await page.getByText('You closed this account', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'Reopen your account' }).click();
    await page.waitForURL('**/reopen');
  });

  await step('it is reopened by the link in the mail, with the security key', async () => {
    const link = await kit.mailTo(email, /(?<=take it all back: \S+)\/reopen/);
    await page.goto(`${base}${link}`);
    await page.getByLabel('Mail address', { exact: true }).fill(email);
    await page.getByLabel('Password', { exact: true }).fill('not the password');
    await page.getByRole('button', { name: 'Reopen and sign in' }).click();
    await page.getByText('Mail address or password is wrong').waitFor();
    await look('reopen');
    await page.getByLabel('Password', { exact: true }).fill(kit.password);
    await page.getByRole('button', { name: 'Reopen and sign in' }).click();
    await page.getByTestId('use-security-key').click();
    await page.waitForURL('**/account');
    await page
      .getByRole('row', { name: new RegExp(`Own ${email}`) })
      .getByText('active')
      .waitFor();
  });

  await step('the security key is removed, by name', async () => {
    await page.getByRole('button', { name: 'Remove blue key' }).click();
    await page.getByTestId('confirm-name').fill('blue key');
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText('You have no second factor yet').waitFor();
  });

  await step('the link of a mail about a leaked key leads to the keys', async () => {
    await page.goto(`${base}/keys`);
    await page.waitForURL('**/api-keys');
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
  });
  await page.context().close();
}

/** A security key of the browser's own, which can be taken out and put back. */
async function securityKeys(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'usb', hasUserVerification: true, isUserVerified: true },
  });
  return {
    // One that says no: the person behind it is not the one it knows, and does not touch it.
    absent: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false }),
    present: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true }),
  };
}
