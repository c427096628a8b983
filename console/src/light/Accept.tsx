import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas, session } from '../api/client';
import { type ApiProblem, asProblem } from '../api/problem';
import type { Language } from '../i18n';
import { go } from '../lib/location';
import { forgetSecrets } from '../lib/secrets';
import { LightForm, NewPasswordField, PasswordField } from './fields';
import { minPassword, useForm } from './form';
import { Field, Go, LightPage, ProblemNote } from './ui';

/** The page that the link of an invitation opens, for a new person and for one who has an account. */
export function Accept() {
  const { t } = useTranslation();
  // Read once: the token opens the tenant, so it leaves the address and with it the history.
  const [token] = useState(() => new URLSearchParams(location.search).get('token') ?? '');
  const [offer, setOffer] = useState<Schemas['InvitationOffer']>();
  const [problem, setProblem] = useState<ApiProblem>();
  useEffect(() => {
    history.replaceState(null, '', location.pathname);
    let left = false;
    got(api.POST('/v1/auth/invitations/look-up', { body: { token } })).then(
      (o) => !left && setOffer(o),
      (err) => !left && setProblem(asProblem(err)),
    );
    return () => {
      left = true;
    };
  }, [token]);
  return (
    <LightPage title={t('accept.title')}>
      {problem && <ProblemNote problem={problem} title={problem.kind === 'invalid' ? t('accept.broken') : undefined} />}
      {problem && (
        <p className="aside">
          <Go to="/sign-in">{t('reset.back')}</Go>
        </p>
      )}
      {!problem && !offer && <p role="status">{t('state.loading')}</p>}
      {offer && <Offer token={token} offer={offer} />}
    </LightPage>
  );
}

function Offer({ token, offer }: { token: string; offer: Schemas['InvitationOffer'] }) {
  const { t, i18n } = useTranslation();
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const isNew = !offer.has_account;
  const form = useForm(
    { name, password },
    (v): { name?: string; password?: string } => ({
      ...(isNew && !v.name.trim() ? { name: t('form.required') } : {}),
      ...(v.password.length >= (isNew ? minPassword : 1)
        ? {}
        : { password: isNew ? t('form.password_short', { min: String(minPassword) }) : t('form.required') }),
    }),
    async (v) => {
      const body = isNew
        ? { token, password: v.password, name: v.name.trim(), locale: i18n.language as Language }
        : { token, password: v.password };
      const grant = await got(api.POST('/v1/auth/invitations/accept', { body }));
      forgetSecrets();
      session.adopt(grant);
      go('/', 'replace');
    },
  );
  return (
    <>
      <p className="lead">
        {t('accept.lead', { tenant: offer.tenant_name, role: t(`role.${offer.role}`), email: offer.email })}
      </p>
      <LightForm form={form} submit={t('accept.submit')}>
        <input type="text" hidden readOnly autoComplete="username" value={offer.email} />
        {isNew && (
          <Field
            label={t('accept.your_name')}
            name="name"
            autoComplete="name"
            maxLength={100}
            required
            value={name}
            onChange={(e) => setName(e.target.value)}
            error={form.errors.name}
          />
        )}
        {isNew ? (
          <NewPasswordField
            label={t('accept.new_password')}
            value={password}
            onChange={setPassword}
            error={form.errors.password}
          />
        ) : (
          <PasswordField
            label={t('accept.password')}
            value={password}
            onChange={setPassword}
            error={form.errors.password}
          />
        )}
      </LightForm>
    </>
  );
}
