// Who may do what: keys and what bounds them, roles of one's own and their bindings, service accounts and workload
// identities, what the organisation demands and where its people sign in.

export async function walkKeys(kit) {
  const { page, base, step, check, look, menu } = kit;
  const dialog = page.getByRole('dialog');

  await step('a key with bounds and a secret of one’s own', async () => {
    await page.goto(`${base}/account`);
    await menu('API keys');
    await page.getByTestId('create-key').click();
    await dialog.getByLabel('Name', { exact: true }).fill('moved');
    await typeWords(dialog.getByLabel('Only from these addresses'), ['10.0.0.0/8']);
    await dialog.getByLabel('Ends before the key', { exact: true }).fill('2027-06-01T12:00');
    await typeWords(dialog.getByLabel('Allowed addresses', { exact: true }), ['127.0.0.0/8', '10.0.0.0/8']);
    await dialog.getByText('I bring my own').click();
    const secret = dialog.getByLabel('Your secret', { exact: true });
    await secret.fill('too short');
    await page.getByTestId('submit-key').click();
    await dialog.getByText(/^32 to 128 letters.*not beginning/).waitFor();
    await look('key-own-secret');
    await secret.fill(ownSecret());
    await page.getByTestId('submit-key').click();
    await page.getByText('The key works with the secret that you brought').waitFor();
    check((await page.getByTestId('secret').count()) === 0, 'a brought secret is shown');
    await page.getByTestId('secret-stored').click();
    const row = page.getByRole('row', { name: /moved/ });
    await row.getByText('10.0.0.0/8').waitFor();
    await kit.showsAllColumns('keys');
    await look('keys-bounds');
  });

  await step('its page says what it may', async () => {
    await page.getByRole('link', { name: 'moved', exact: true }).click();
    await page.getByRole('heading', { name: 'moved', level: 1 }).waitFor();
    await page.getByText('127.0.0.0/8 10.0.0.0/8').waitFor();
    await kit.showsAllColumns('key');
    await look('key');
    await kit.onPhone('key');
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await dialog.getByLabel('Description', { exact: true }).fill('from the old cluster');
    await dialog.getByLabel('Switched off', { exact: true }).click();
    await look('key-edit');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('from the old cluster').waitFor();
    await page.getByText('disabled', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await dialog.getByLabel('Switched off', { exact: true }).click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
  });

  await step('a short token for it is made, shown once', async () => {
    await page.getByRole('button', { name: 'Get a token', exact: true }).click();
    await page.getByTestId('make-token').click();
    const token = (await page.getByTestId('key-token').locator('pre').textContent()) ?? '';
    check(token.split('.').length === 3, `no token: ${token}`);
    await look('key-token');
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByTestId('key-token').waitFor({ state: 'detached' });
    check(!(await page.content()).includes(token), 'the token is still in the page');
  });

  await step('it is rotated, and both keys work for a while', async () => {
    await page.getByRole('button', { name: 'Rotate', exact: true }).click();
    await dialog.getByText('At once', { exact: true }).click();
    await page.getByTestId('overlap').getByText('The old key ends at once').waitFor();
    await dialog.getByText('1 day', { exact: true }).click();
    await page
      .getByTestId('overlap')
      .getByText(/^Both keys work until/)
      .waitFor();
    await look('rotate');
    const old = page.url();
    await dialog.getByRole('button', { name: 'Rotate', exact: true }).click();
    await page.getByTestId('secret').waitFor();
    await page.getByTestId('secret-stored').click();
    await page.waitForURL((u) => u.href !== old && u.pathname.includes('/api-keys/slk_'));
    await page.getByText('Replaces', { exact: true }).waitFor();
    await page.goto(old);
    await page.getByText('This key is being replaced; both work for now').waitFor();
    check((await page.getByRole('button', { name: 'Rotate' }).count()) === 0, 'a replaced key is offered to rotate');
    await look('key-overlap');
  });

  await step('a secret that was found in public is reported, its key revoked', async () => {
    await menu('API keys');
    await page.getByTestId('create-key').click();
    await dialog.getByLabel('Name', { exact: true }).fill('leaky');
    await page.getByTestId('submit-key').click();
    const secret = (await page.getByTestId('secret').locator('code').textContent()) ?? '';
    await page.getByTestId('secret-stored').click();
    await page.getByTestId('report-leak').click();
    await dialog.getByLabel('What was found', { exact: true }).fill(`secretKey = "${secret}"`);
    await look('report-leak');
    await dialog.getByRole('button', { name: 'Report and revoke' }).click();
    await dialog.getByText('Thank you, the report was taken').waitFor();
    check(!(await page.content()).includes(secret), 'the reported secret is still in the page');
    await dialog.getByRole('button', { name: 'Done' }).click();
    const until = performance.now() + 20_000;
    while ((await page.getByRole('row', { name: /leaky/ }).getByText('Found in public, and revoked').count()) === 0) {
      check(performance.now() < until, 'the leaked key is not revoked');
      await page.reload();
      await page.getByRole('row', { name: /leaky/ }).waitFor();
    }
    await kit.mailTo(kit.email, /was reported as found in a public place/);
    await page.getByRole('link', { name: 'leaky', exact: true }).click();
    await page.getByRole('alert').getByText('Somebody reported its secret').waitFor();
    await look('key-leaked');
  });

  await step('a key is deleted, by name', async () => {
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByTestId('confirm-name').fill('leaky');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.waitForURL('**/api-keys');
    await page.getByRole('row', { name: /moved/ }).first().waitFor();
    await page.getByRole('row', { name: /leaky/ }).waitFor({ state: 'detached' });
  });
}

export async function walkRoles(kit) {
  const { page, base, ns, step, check, look, menu } = kit;
  const dialog = page.getByRole('dialog');
  const mate = kit.email.replace('@', '-mate@');
  let other;
  const denied = [];

  await step('a role of one’s own is made', async () => {
    await page.goto(`${base}/account`);
    await menu('Roles');
    await page.getByText('Nobody has a role by a binding').waitFor();
    await page.getByTestId('create-role').click();
    await dialog.getByLabel('Name', { exact: true }).fill('order keeper');
    await dialog.getByLabel('Consumer groups: Look').uncheck();
    await dialog.getByLabel('Topics: Change').check();
    await look('role-dialog');
    await page.getByTestId('submit-role').click();
    await dialog.waitFor({ state: 'hidden' });
    const row = page.getByRole('row', { name: /order keeper/ });
    await row.getByText('namespace:read topic:read topic:write').waitFor();
  });

  await step('a member without a role joins', async () => {
    await menu('Members');
    await page.getByTestId('invite').click();
    await dialog.getByLabel('Mail address', { exact: true }).fill(mate);
    await dialog.getByLabel('Role', { exact: true }).click();
    await page.getByTitle('none: only what role bindings give').click();
    await page.getByRole('button', { name: 'Send the invitation' }).click();
    await page.getByRole('row', { name: new RegExp(mate) }).waitFor();
    const link = await kit.mailTo(mate, /\/invitations\/accept\?token=[\w-]+/);
    other = await kit.newPage();
    other.on('response', (r) => r.status() === 403 && denied.push(new URL(r.url()).pathname));
    await other.goto(`${base}${link}`);
    await other.getByLabel('Your name', { exact: true }).fill('Mate');
    await other.getByLabel('Choose a password', { exact: true }).fill(`${kit.password} too`);
    await other.getByRole('button', { name: 'Accept the invitation' }).click();
    await other.getByTestId('account-menu').waitFor();
    const entries = await other.getByRole('navigation', { name: 'Console' }).getByRole('link').allTextContents();
    check(entries.join() === 'Account', `without a role the menu offers ${entries}`);
    await other.waitForURL('**/account');
    check(denied.length === 0, `the console asks for what is refused: ${denied}`);
    await kit.lookAt(other, 'without-role');
  });

  await step('the role is bound to them for a part, until a time', async () => {
    await page.reload();
    await page.getByRole('link', { name: `Bindings of ${mate}` }).click();
    await page.waitForURL('**/roles?principal=usr_*');
    await page.getByTestId('bind').click();
    await dialog.getByLabel('Role', { exact: true }).click();
    await page.getByTitle('order keeper', { exact: true }).click();
    await dialog.getByText('consumer groups', { exact: true }).click();
    await page.getByTestId('counts').getByText('Nothing of this role counts there').waitFor();
    await dialog.getByText('topics', { exact: true }).click();
    await page.getByTestId('counts').getByText('topic:read topic:write').waitFor();
    await dialog.getByLabel('Name or prefix', { exact: true }).fill('orders*');
    await dialog.getByLabel('Expires', { exact: true }).fill('2027-06-01T12:00');
    await look('bind');
    await page.getByTestId('submit-binding').click();
    await dialog.waitFor({ state: 'hidden' });
    const row = page.getByRole('row', { name: new RegExp(mate) });
    await row.getByText('orders*').waitFor();
    await row.getByText('order keeper').waitFor();
    await kit.showsAllColumns('roles');
    await look('roles');
    await kit.onPhone('roles-full');
  });

  await step('they see what they may, and no button that is refused', async () => {
    await other.goto(`${base}/n/${ns}/topics`);
    await other.getByTestId('create-topic').waitFor();
    const nav = other.getByRole('navigation', { name: 'Console' });
    await nav.getByRole('link', { name: 'Topics', exact: true }).waitFor();
    for (const hidden of ['Members', 'Roles', 'Security', 'Audit log', 'Access rules']) {
      check((await nav.getByRole('link', { name: hidden, exact: true }).count()) === 0, `${hidden} is offered`);
    }
    await other.getByTestId('create-topic').click();
    await other.getByRole('dialog').getByLabel('Name', { exact: true }).fill('orders-mate');
    await other.getByTestId('submit-topic').click();
    await other.waitForURL(`**/n/${ns}/topics/orders-mate`);
    await other.getByRole('button', { name: 'Edit', exact: true }).waitFor();
    for (const hidden of ['Messages', 'Send', 'Live tail', 'Who can touch it']) {
      check((await other.getByRole('tab', { name: hidden }).count()) === 0, `the tab ${hidden} is offered`);
    }
    await kit.lookAt(other, 'bound');
    await other.goto(`${base}/account`);
    await other.getByText('order keeper').or(other.getByText('orders*')).first().waitFor();
    check(denied.length === 0, `the console asks for what is refused: ${denied}`);
  });

  await step('the role is taken away, and then deleted', async () => {
    await page.getByRole('button', { name: `Remove order keeper from ${mate}` }).click();
    await page.getByTestId('confirm-name').fill(mate);
    await dialog.getByRole('button', { name: 'Remove', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'Delete role order keeper' }).click();
    await page.getByTestId('confirm-name').fill('order keeper');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('row', { name: /order keeper/ }).waitFor({ state: 'detached' });
    await other.goto(`${base}/account`);
    await other.getByRole('heading', { name: 'Account', level: 1 }).waitFor();
    check((await other.getByTestId('create-topic').count()) === 0, 'the right is still there');
    await other.context().close();
  });

  await step('a service account and a workload identity', async () => {
    await menu('Service accounts');
    await page.getByText('There is no service account yet').waitFor();
    check((await page.getByTestId('create-workload').count()) === 0, 'a workload identity of nobody is offered');
    await look('service-accounts-empty');
    await page.getByTestId('create-service-account').click();
    await dialog.getByLabel('Name', { exact: true }).fill('checkout');
    await page.getByTestId('submit-service-account').click();
    await page.getByRole('row', { name: /checkout/ }).waitFor();
    await page.getByTestId('create-workload').click();
    await dialog.getByLabel('Name', { exact: true }).fill('deploy');
    await dialog.getByLabel('Issuer', { exact: true }).fill('https://token.actions.githubusercontent.com');
    await page.keyboard.press('Escape');
    await dialog.getByLabel('Subject', { exact: true }).fill('repo:acme/checkout:*');
    await dialog.getByRole('button', { name: 'Add a claim' }).click();
    await dialog.getByLabel('Claim', { exact: true }).fill('ref');
    await dialog.getByLabel('Value, or beginning with *', { exact: true }).fill('refs/heads/main');
    await look('workload-dialog');
    await page.getByTestId('submit-workload').click();
    const use = page.getByRole('dialog', { name: 'How to use deploy' });
    await use.getByText('grant_type=urn:ietf:params:oauth:grant-type:token-exchange').first().waitFor();
    await look('workload-use');
    await use.getByRole('button', { name: 'Done' }).click();
    const row = page.getByRole('row', { name: /deploy/ });
    await row.getByText('repo:acme/checkout:*').waitFor();
    await row.getByText('refs/heads/main').waitFor();
    await kit.showsAllColumns('service-accounts');
    await look('service-accounts');
    await kit.onPhone('service-accounts-full');
    await row.getByRole('link', { name: 'its key' }).click();
    await page.getByText('Nobody knows its secret').waitFor();
    check((await page.getByRole('button', { name: 'Rotate' }).count()) === 0, 'a managed key is offered to rotate');
    await look('key-workload');
  });

  await step('they are deleted, by name', async () => {
    await menu('Service accounts');
    await page.getByRole('button', { name: 'Delete workload identity deploy' }).click();
    await page.getByTestId('confirm-name').fill('deploy');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('There is none yet. With one, a build job').waitFor();
    await page.getByRole('button', { name: 'Delete checkout' }).click();
    await page.getByTestId('confirm-name').fill('checkout');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('There is no service account yet').waitFor();
  });
}

export async function walkSecurity(kit) {
  const { page, base, step, check, look, menu } = kit;
  const dialog = page.getByRole('dialog');

  await step('the age of keys is limited, and says whom it hits', async () => {
    await page.goto(`${base}/account`);
    await menu('Security');
    await page.getByLabel('Demand a second factor', { exact: true }).click();
    await page.getByTestId('consequences').getByText('Members without a second factor').waitFor();
    await page.getByLabel('Demand a second factor', { exact: true }).click();
    await page.getByLabel('Greatest age of API keys', { exact: true }).fill('2160h');
    await page.keyboard.press('Escape');
    await page.getByTestId('consequences').getByText('Keys that are older end at once').waitFor();
    await look('security');
    await page.getByTestId('save-security').click();
    await page.getByText('Saved', { exact: true }).first().waitFor();
    await menu('API keys');
    await page.getByText('by the age that is allowed').first().waitFor();
    await page.getByTestId('create-key').click();
    await dialog.getByText('Your organisation lets keys live 90 days at most').waitFor();
    const end = await dialog.getByLabel('Expires', { exact: true }).inputValue();
    check(end.startsWith('20'), `no end is filled in: ${end}`);
    await dialog.getByLabel('Name', { exact: true }).fill('bounded');
    await page.getByTestId('submit-key').click();
    await page.getByTestId('secret-stored').click();
  });

  await step('the limit is lifted', async () => {
    await menu('Security');
    await page.getByLabel('Greatest age of API keys', { exact: true }).fill('');
    await page.keyboard.press('Escape');
    await page.getByTestId('save-security').click();
    await page.getByText('Saved', { exact: true }).first().waitFor();
    await page.reload();
    check((await page.getByLabel('Greatest age of API keys', { exact: true }).inputValue()) === '', 'the limit stays');
  });

  await step('single sign-on is not demanded before it can be', async () => {
    await page.getByLabel('Demand single sign-on', { exact: true }).click();
    await kit.refused(async () => {
      await page.getByTestId('save-security').click();
      await page.getByTestId('failed').or(page.locator('.ant-form-item-explain-error')).first().waitFor();
    });
    await look('security-refused');
    await page.reload();
  });

  await step('an identity provider is named', async () => {
    await page.getByTestId('create-provider').click();
    await dialog.getByLabel('Name', { exact: true }).fill('staff');
    await dialog.getByLabel('Issuer', { exact: true }).fill('https://login.example.com');
    await dialog.getByLabel('Client id', { exact: true }).fill('sluice-console');
    await dialog.getByLabel('Client secret', { exact: true }).fill('EXAMPLE-ONLY');
    await typeWords(dialog.getByLabel('Domains', { exact: true }), ['example.com']);
    await look('provider-dialog');
    await page.getByTestId('submit-provider').click();
    await page.waitForURL('**/identity-providers/idp_*');
    await page.getByText('_sluice-challenge.example.com').waitFor();
    await page.getByText('/v1/auth/sso/backchannel-logout').waitFor();
    await kit.showsAllColumns('provider');
    await look('provider');
    await kit.onPhone('provider');
  });

  await step('a domain without its record is not verified, and says so', async () => {
    await kit.refused(async () => {
      await page.getByRole('button', { name: 'Verify example.com' }).click();
      await page
        .getByText(/The TXT record was not found|not available/)
        .first()
        .waitFor();
    });
    await look('provider-unverified');
  });

  await step('it is switched off and deleted, by name', async () => {
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await dialog.getByLabel('People can sign in there', { exact: true }).click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.getByText('switched off', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByTestId('confirm-name').fill('staff');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.waitForURL('**/security');
    await page.getByText('There is none yet: people sign in with a password').waitFor();
  });
}

/** Words into an input that makes a tag of each. */
async function typeWords(input, words) {
  for (const w of words) {
    await input.fill(w);
    await input.press('Enter');
  }
}

/** As hard to guess as a real one; made anew for each run. */
function ownSecret() {
  const signs = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789';
  return Array.from(crypto.getRandomValues(new Uint8Array(44)), (b) => signs[b % signs.length]).join('');
}
