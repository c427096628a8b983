import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Alert, App, Button, Form, Input, Modal, QRCode, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { securityKeysWork } from '../../../lib/webauthn';
import { Badge, Code, ConfirmByName, Copyable, DataTable, Nothing, Outcome, ProblemView, Time } from '../../ui';
import { useSave } from '../../useSave';
import { AddSecurityKey } from './AddSecurityKey';

type Open =
  | { what: 'add' | 'add_key' }
  | { what: 'remove'; factor: Schemas['MfaFactor'] }
  | { what: 'codes'; codes: readonly string[] };

/** The second factors of the person, and the recovery codes that stand in for them. */
export function Factors({ enrol }: { enrol: boolean }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [open, setOpen] = useState<Open>();
  const [problem, setProblem] = useState<ApiProblem>();
  const query = useQuery({
    queryKey: ['mfa-factors'],
    // One page holds more than anybody can have.
    queryFn: ({ signal }) => got(api.GET('/v1/me/mfa-factors', { params: { query: { page_size: 100 } }, signal })),
    select: (all) => ({ items: all.items.filter((f) => f.confirmed), codesLeft: all.recovery_codes_left }),
  });
  const close = () => setOpen(undefined);
  const added = (codes: readonly string[]) => setOpen(codes.length > 0 ? { what: 'codes', codes } : undefined);

  async function renew() {
    setProblem(undefined);
    try {
      const { recovery_codes } = await got(api.POST('/v1/me/mfa-factors/actions/renew-recovery-codes'));
      setOpen({ what: 'codes', codes: recovery_codes });
      await queries.invalidateQueries({ queryKey: ['mfa-factors'] });
    } catch (err) {
      setProblem(asProblem(err));
    }
  }

  return (
    <>
      {enrol && query.data?.items.length === 0 && (
        <Alert
          type="warning"
          showIcon
          className="gap"
          title={t('mfa.enrol')}
          description={t('mfa.enrol_text')}
          data-testid="enrol"
        />
      )}
      {problem && <ProblemView problem={problem} />}
      <Outcome query={query} isEmpty={(d) => d.items.length === 0} empty={<Nothing text={t('mfa.empty')} />}>
        {({ items, codesLeft }) => (
          <>
            <DataTable<Schemas['MfaFactor']>
              label={t('mfa.title')}
              rowKey="id"
              size="small"
              dataSource={items}
              pagination={false}
              columns={[
                { title: t('field.name'), dataIndex: 'name' },
                { title: t('mfa.type'), render: (_, f) => <Badge>{t(`mfa_type.${f.type}`)}</Badge> },
                { title: t('field.created'), render: (_, f) => <Time at={f.created_at} /> },
                { title: t('keys.last_used'), render: (_, f) => <Time at={f.last_used_at} /> },
                {
                  title: t('field.actions'),
                  className: 'stays',
                  render: (_, f) => (
                    <Button
                      size="small"
                      danger
                      aria-label={t('mfa.remove', { name: f.name })}
                      onClick={() => setOpen({ what: 'remove', factor: f })}
                    >
                      {t('action.remove')}
                    </Button>
                  ),
                },
              ]}
            />
            <p className={codesLeft > 2 ? 'muted' : 'bad-text'} data-testid="codes-left">
              {t('mfa.codes_left', { n: String(codesLeft) })}
            </p>
          </>
        )}
      </Outcome>
      <Space wrap className="gap top">
        <Button type={enrol ? 'primary' : 'default'} onClick={() => setOpen({ what: 'add' })} data-testid="add-factor">
          {t('mfa.add')}
        </Button>
        {securityKeysWork() && (
          <Button onClick={() => setOpen({ what: 'add_key' })} data-testid="add-security-key">
            {t('mfa.add_key')}
          </Button>
        )}
        {query.data && query.data.items.length > 0 && <Button onClick={() => void renew()}>{t('mfa.renew')}</Button>}
      </Space>
      {open?.what === 'add' && <AddFactor onClose={close} onAdded={added} />}
      {open?.what === 'add_key' && <AddSecurityKey onClose={close} onAdded={added} />}
      {open?.what === 'codes' && <RecoveryCodes codes={open.codes} onClose={close} />}
      {open?.what === 'remove' && (
        <ConfirmByName
          open
          title={t('mfa.remove', { name: open.factor.name })}
          text={t('mfa.remove_text')}
          name={open.factor.name}
          action={t('action.remove')}
          onClose={close}
          run={async () => {
            const { factor } = open;
            await got(
              api.DELETE('/v1/me/mfa-factors/{id}', {
                params: { path: { id: factor.id }, header: { 'If-Match': etag(factor) } },
              }),
            );
            void message.success(t('mfa.removed', { name: factor.name }));
            await queries.invalidateQueries({ queryKey: ['mfa-factors'] });
          }}
        />
      )}
    </>
  );
}

/** In two steps: a name, then the first code of the app that has taken the secret up. */
function AddFactor(props: { onClose: () => void; onAdded: (codes: readonly string[]) => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<{ name: string; code?: string }>();
  const [enrolment, setEnrolment] = useState<Schemas['MfaEnrolment']>();
  const { busy, problem, save } = useSave<{ name: string; code?: string }>(form, async (v) => {
    if (!enrolment) {
      setEnrolment(await got(api.POST('/v1/me/mfa-factors', { body: { type: 'totp', name: v.name.trim() } })));
      return;
    }
    const done = await got(
      api.POST('/v1/me/mfa-factors/{id}/actions/confirm', {
        params: { path: { id: enrolment.id } },
        body: { code: v.code?.replace(/\s/g, '') ?? '' },
      }),
    );
    void message.success(t('mfa.added', { name: done.factor.name }));
    props.onAdded(done.recovery_codes);
    await queries.invalidateQueries();
  });
  return (
    <Modal
      open
      title={t('mfa.add')}
      okText={enrolment ? t('verify.submit') : t('mfa.next')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      mask={{ closable: false }}
      onOk={form.submit}
      onCancel={props.onClose}
    >
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="factor" layout="vertical" onFinish={save} initialValues={{ name: t('mfa.default_name') }}>
        {enrolment ? (
          <>
            <p>{t('mfa.scan')}</p>
            <div className="qr" role="img" aria-label={t('mfa.qr')}>
              {/* Dark on white in both themes, for cameras. */}
              <div aria-hidden="true">
                <QRCode value={enrolment.otpauth_url} type="svg" size={208} color="#000000" bgColor="#ffffff" />
              </div>
            </div>
            <p>{t('mfa.by_hand')}</p>
            <p data-testid="totp-secret">
              <Copyable text={enrolment.secret} what={t('mfa.secret')} />
            </p>
            <Form.Item
              name="code"
              label={t('mfa.first_code')}
              rules={[{ required: true, pattern: /^\s*\d{3}\s?\d{3}\s*$/, message: t('form.code_wrong') }]}
            >
              <Input inputMode="numeric" autoComplete="one-time-code" maxLength={9} autoFocus />
            </Form.Item>
          </>
        ) : (
          <>
            <p>{t('mfa.add_text')}</p>
            <Form.Item
              name="name"
              label={t('mfa.name')}
              rules={[{ required: true, whitespace: true, message: t('form.required') }]}
            >
              <Input autoComplete="off" maxLength={100} />
            </Form.Item>
          </>
        )}
      </Form>
    </Modal>
  );
}

/** The only place where recovery codes are shown. It goes away by an explicit word. */
function RecoveryCodes({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal
      open
      title={t('mfa.codes')}
      closable={false}
      mask={{ closable: false }}
      keyboard={false}
      footer={
        <Button type="primary" onClick={onClose} data-testid="codes-stored">
          {t('keys.stored')}
        </Button>
      }
    >
      <Alert type="warning" showIcon className="gap" title={t('mfa.codes_once')} />
      <p>{t('mfa.codes_text')}</p>
      <div data-testid="recovery-codes">
        <Code text={codes.join('\n')} title={t('mfa.codes')} />
      </div>
    </Modal>
  );
}
