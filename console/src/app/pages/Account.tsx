import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { App, Button, Descriptions, Form, Input, Segmented } from 'antd';
import { useId } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { type Language, languages, setLanguage } from '../../i18n';
import { leave } from '../../lib/leave';
import { useMay, useMe, useTenant } from '../data';
import { Badge, Copyable, Outcome, PageHead, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';
import { CloseAccount } from './account/CloseAccount';
import { Credentials } from './account/Credentials';
import { Factors } from './account/Factors';
import { Sessions } from './account/Sessions';
import { Tenants } from './account/Tenants';
import { ScopeText, useRoleName } from './roles/names';

const route = getRouteApi('/account');

export function Account() {
  const { t } = useTranslation();
  const me = useMe();
  const { enrol } = route.useSearch();
  const seesTenant = useMay('tenant:read');
  const tenant = useTenant();
  return (
    <>
      <PageHead
        title={t('account.title')}
        actions={
          <Button onClick={() => void leave()} data-testid="sign-out">
            {t('nav.sign_out')}
          </Button>
        }
      />
      <Outcome query={me}>{(m) => <Person me={m} />}</Outcome>
      {seesTenant && <h2>{t('account.tenant')}</h2>}
      {seesTenant && (
        <Outcome query={tenant}>
          {(v) => (
            <Descriptions
              bordered
              size="small"
              column={1}
              items={[
                { key: 'name', label: t('field.name'), children: v.name },
                { key: 'id', label: t('field.id'), children: <Copyable text={v.id} what={t('field.id')} /> },
                {
                  key: 'status',
                  label: t('field.status'),
                  children: (
                    <Badge tone={v.status === 'active' ? 'good' : 'bad'}>{t(`tenant_status.${v.status}`)}</Badge>
                  ),
                },
                { key: 'plan', label: t('account.plan'), children: <code>{v.plan_id}</code> },
                { key: 'created', label: t('field.created'), children: <Time at={v.created_at} /> },
              ]}
            />
          )}
        </Outcome>
      )}
      {me.data?.type === 'user' && (
        <>
          <h2>{t('mfa.title')}</h2>
          <p className="muted">{t('mfa.lead')}</p>
          <Factors enrol={enrol === true} />
          <h2>{t('sessions.title')}</h2>
          <p className="muted">{t('sessions.lead')}</p>
          <Sessions />
          <h2>{t('tenants.title')}</h2>
          <Tenants />
          <h2>{t('close.title')}</h2>
          <CloseAccount me={me.data} />
        </>
      )}
    </>
  );
}

function Person({ me }: { me: Schemas['Me'] }) {
  const { t, i18n } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['MeUpdate']>();
  const { busy, problem, save } = useSave<Schemas['MeUpdate']>(form, async (v) => {
    const changed = await got(
      api.PATCH('/v1/me', { params: { header: { 'If-Match': etag(me) } }, body: { name: v.name?.trim() } }),
    );
    queries.setQueryData(['me'], changed);
    void message.success(t('state.saved'));
  });
  const mail = useSave<Language>(form, async (locale) => {
    const changed = await got(api.PATCH('/v1/me', { params: { header: { 'If-Match': etag(me) } }, body: { locale } }));
    queries.setQueryData(['me'], changed);
    void message.success(t('state.saved'));
  });
  return (
    <>
      <Descriptions
        bordered
        size="small"
        column={1}
        items={[
          { key: 'email', label: t('form.email'), children: me.email ?? t('state.none') },
          { key: 'role', label: t('account.role'), children: <Roles me={me} /> },
          { key: 'id', label: t('field.id'), children: <Copyable text={me.id} what={t('field.id')} /> },
        ]}
      />
      {me.type === 'user' && (
        <>
          {(problem ?? mail.problem) && (
            <ProblemView problem={(problem ?? mail.problem) as NonNullable<typeof problem>} />
          )}
          <Form
            form={form}
            name="person"
            layout="inline"
            className="gap top"
            onFinish={save}
            initialValues={{ name: me.name }}
          >
            <Form.Item
              name="name"
              label={t('account.name')}
              rules={[{ required: true, whitespace: true, message: t('form.required') }]}
            >
              <Input maxLength={100} autoComplete="name" />
            </Form.Item>
            <Button htmlType="submit" loading={busy}>
              {t('action.save')}
            </Button>
          </Form>
          <Credentials me={me} />
          <LanguageField
            label={t('account.mail_language')}
            value={me.locale}
            disabled={mail.busy}
            onChange={(l) => void mail.save(l)}
            testid="mail-language"
          />
        </>
      )}
      <LanguageField
        label={t('account.console_language')}
        value={i18n.language as Language}
        onChange={(l) => void setLanguage(l)}
        testid="console-language"
      />
    </>
  );
}

/** The role in the whole organisation, and what bindings add to it. */
function Roles({ me }: { me: Schemas['Me'] }) {
  const { t } = useTranslation();
  const roleName = useRoleName();
  return (
    <>
      {t(`role.${me.role}`)}
      {me.bindings.map((b) => (
        <div key={JSON.stringify([b.role, b.scope])}>
          {roleName(b.role)} <ScopeText scope={b.scope} />
          {b.expires_at && (
            <>
              {' '}
              {t('roles.until')} <Time at={b.expires_at} />
            </>
          )}
        </div>
      ))}
    </>
  );
}

function LanguageField(props: {
  label: string;
  value: Language | undefined;
  disabled?: boolean;
  onChange: (l: Language) => void;
  testid: string;
}) {
  const { t } = useTranslation();
  const id = useId();
  return (
    <div className="filters" data-testid={props.testid}>
      <span id={id} className="field-name">
        {props.label}
      </span>
      <Segmented
        aria-labelledby={id}
        // Without a language of its own nothing is marked.
        value={props.value ?? ''}
        disabled={props.disabled}
        options={languages.map((l) => ({ value: l, label: t(`language.${l}`) }))}
        onChange={(l) => props.onChange(l as Language)}
      />
    </div>
  );
}
