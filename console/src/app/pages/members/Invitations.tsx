import { useQuery, useQueryClient } from '@tanstack/react-query';
import { App, Form, Input, Modal, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, etag, got, type Schemas } from '../../../api/client';
import { type ApiProblem, asProblem } from '../../../api/problem';
import { type Language, languages } from '../../../i18n';
import { emailPattern } from '../../../light/form';
import { Badge, DataTable, MayButton, Nothing, Outcome, ProblemView, Time } from '../../ui';
import { useSave } from '../../useSave';
import { memberRoles } from './roles';

const tone = { pending: 'warn', accepted: 'good', expired: 'plain' } as const;

/** Whom a mail asks to become a member. */
export function Invitations({ mayWrite }: { mayWrite: boolean }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [busy, setBusy] = useState<string>();
  const [problem, setProblem] = useState<ApiProblem>();
  const query = useQuery({
    queryKey: ['invitations'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/invitations', { params: { query: { page_token } }, signal }))),
  });

  async function act(i: Schemas['Invitation'], what: 'resend' | 'withdraw') {
    setBusy(`${what} ${i.id}`);
    setProblem(undefined);
    const params = { path: { id: i.id }, header: { 'If-Match': etag(i) } };
    try {
      if (what === 'resend') {
        await got(api.POST('/v1/invitations/{id}/actions/resend', { params }));
        void message.success(t('invitations.sent', { email: i.email }));
      } else {
        await got(api.DELETE('/v1/invitations/{id}', { params }));
        void message.success(t('invitations.withdrawn', { email: i.email }));
      }
    } catch (err) {
      setProblem(asProblem(err));
    } finally {
      setBusy(undefined);
      await queries.invalidateQueries({ queryKey: ['invitations'] });
    }
  }

  return (
    <>
      {problem && <ProblemView problem={problem} />}
      <Outcome query={query} isEmpty={(d) => d.length === 0} empty={<Nothing text={t('invitations.empty')} />}>
        {(items) => (
          <DataTable<Schemas['Invitation']>
            label={t('invitations.title')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              { title: t('form.email'), dataIndex: 'email' },
              { title: t('account.role'), render: (_, i) => t(`role.${i.role}`) },
              {
                title: t('field.status'),
                render: (_, i) => <Badge tone={tone[i.state]}>{t(`invitation_state.${i.state}`)}</Badge>,
              },
              { title: t('invitations.sent_at'), render: (_, i) => <Time at={i.sent_at} /> },
              { title: t('keys.expires'), render: (_, i) => <Time at={i.expires_at} /> },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, i) =>
                  i.state === 'accepted' ? null : (
                    <Space>
                      <MayButton
                        size="small"
                        may={mayWrite}
                        loading={busy === `resend ${i.id}`}
                        aria-label={t('invitations.resend_to', { email: i.email })}
                        onClick={() => void act(i, 'resend')}
                      >
                        {t('invitations.resend')}
                      </MayButton>
                      <MayButton
                        size="small"
                        danger
                        may={mayWrite}
                        loading={busy === `withdraw ${i.id}`}
                        aria-label={t('invitations.withdraw_from', { email: i.email })}
                        onClick={() => void act(i, 'withdraw')}
                      >
                        {t('invitations.withdraw')}
                      </MayButton>
                    </Space>
                  ),
              },
            ]}
          />
        )}
      </Outcome>
    </>
  );
}

export function InvitePerson({ onClose }: { onClose: () => void }) {
  const { t, i18n } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['InvitationCreate']>();
  const { busy, problem, save } = useSave<Schemas['InvitationCreate']>(form, async (v) => {
    const email = v.email.trim();
    await got(api.POST('/v1/invitations', { body: { ...v, email } }));
    void message.success(t('invitations.sent', { email }));
    onClose();
    await queries.invalidateQueries({ queryKey: ['invitations'] });
  });
  return (
    <Modal
      open
      title={t('members.invite')}
      okText={t('invitations.send')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      <p>{t('invitations.text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="invitation"
        layout="vertical"
        onFinish={save}
        initialValues={{ role: 'developer', locale: i18n.language as Language }}
      >
        <Form.Item
          name="email"
          label={t('form.email')}
          rules={[
            {
              required: true,
              message: t('form.email_wrong'),
              validator: (_, v?: string) =>
                emailPattern.test(v?.trim() ?? '')
                  ? Promise.resolve()
                  : Promise.reject(new Error(t('form.email_wrong'))),
            },
          ]}
        >
          <Input type="email" autoComplete="off" maxLength={254} autoFocus />
        </Form.Item>
        <Form.Item name="role" label={t('account.role')}>
          <Select options={memberRoles.map((r) => ({ value: r, label: `${t(`role.${r}`)}: ${t(`role_may.${r}`)}` }))} />
        </Form.Item>
        <Form.Item name="locale" label={t('account.mail_language')}>
          <Select options={languages.map((l) => ({ value: l, label: t(`language.${l}`) }))} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
