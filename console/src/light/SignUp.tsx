import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got } from '../api/client';
import type { Language } from '../i18n';
import { go } from '../lib/location';
import { EmailField, LightForm, NewPasswordField } from './fields';
import { emailPattern, minPassword, useForm } from './form';
import { setPendingEmail } from './pending';
import { Field, Go, LightPage } from './ui';

export function SignUp() {
  const { t, i18n } = useTranslation();
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [tenantName, setTenantName] = useState('');
  const form = useForm(
    { email, password, tenant_name: tenantName },
    (v) => ({
      ...(emailPattern.test(v.email.trim()) ? {} : { email: t('form.email_wrong') }),
      ...(v.password.length >= minPassword ? {} : { password: t('form.password_short', { min: String(minPassword) }) }),
      ...(v.tenant_name.trim() ? {} : { tenant_name: t('form.required') }),
    }),
    async (v) => {
      const body = {
        email: v.email.trim(),
        password: v.password,
        tenant_name: v.tenant_name.trim(),
        locale: i18n.language as Language,
      };
      await got(api.POST('/v1/auth/sign-up', { body }));
      setPendingEmail(body.email);
      go('/verify');
    },
  );
  return (
    <LightPage title={t('sign_up.title')}>
      <p className="lead">{t('sign_up.lead')}</p>
      <LightForm form={form} submit={t('sign_up.submit')}>
        <EmailField value={email} onChange={setEmail} error={form.errors.email} autoComplete="email" />
        <NewPasswordField
          label={t('form.password')}
          value={password}
          onChange={setPassword}
          error={form.errors.password}
        />
        <Field
          label={t('form.tenant_name')}
          name="tenant_name"
          autoComplete="organization"
          required
          maxLength={100}
          value={tenantName}
          onChange={(e) => setTenantName(e.target.value)}
          error={form.errors.tenant_name}
        />
      </LightForm>
      <p className="aside">
        {t('sign_up.have_account')} <Go to="/sign-in">{t('sign_in.title')}</Go>
      </p>
    </LightPage>
  );
}
