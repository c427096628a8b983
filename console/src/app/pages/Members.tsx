import { useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { App, Button, Form, Modal, Select, Space } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas, session } from '../../api/client';
import { go } from '../../lib/location';
import { forgetSecrets } from '../../lib/secrets';
import { useMay, useMe, useMembers } from '../data';
import { Badge, ConfirmByName, DataTable, MayButton, Outcome, PageHead, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';
import { Invitations, InvitePerson } from './members/Invitations';
import { memberRoles } from './members/roles';

type Open = { what: 'invite' | 'leave' } | { what: 'role' | 'remove'; member: Schemas['Member'] };

/** The people of the tenant. */
export function Members() {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const me = useMe();
  const mayWrite = useMay('member:write');
  const seesRoles = useMay('role:read');
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const query = useMembers();
  return (
    <>
      <PageHead
        title={t('members.title')}
        lead={t('members.lead')}
        actions={
          <Space wrap>
            <Button disabled={me.data?.type !== 'user'} onClick={() => setOpen({ what: 'leave' })}>
              {t('members.leave')}
            </Button>
            <MayButton type="primary" may={mayWrite} onClick={() => setOpen({ what: 'invite' })} data-testid="invite">
              {t('members.invite')}
            </MayButton>
          </Space>
        }
      />
      <Outcome query={query}>
        {(items) => (
          <DataTable<Schemas['Member']>
            label={t('members.title')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('form.email'),
                render: (_, m) => (
                  <>
                    {m.email} {m.id === me.data?.id && <Badge tone="good">{t('members.you')}</Badge>}
                  </>
                ),
              },
              { title: t('field.name'), dataIndex: 'name' },
              { title: t('account.role'), render: (_, m) => t(`role.${m.role}`) },
              { title: t('members.last_sign_in'), render: (_, m) => <Time at={m.last_sign_in_at} /> },
              {
                title: t('field.actions'),
                className: 'stays',
                render: (_, m) => (
                  <Space>
                    {seesRoles && (
                      <Link
                        to="/roles"
                        search={{ principal: m.id }}
                        aria-label={t('members.roles_of', { name: m.email })}
                      >
                        {t('members.bindings')}
                      </Link>
                    )}
                    <MayButton
                      size="small"
                      may={mayWrite}
                      aria-label={t('members.role_of', { name: m.email })}
                      onClick={() => setOpen({ what: 'role', member: m })}
                    >
                      {t('members.change_role')}
                    </MayButton>
                    {m.id !== me.data?.id && (
                      <MayButton
                        size="small"
                        danger
                        may={mayWrite}
                        aria-label={t('members.remove', { name: m.email })}
                        onClick={() => setOpen({ what: 'remove', member: m })}
                      >
                        {t('action.remove')}
                      </MayButton>
                    )}
                  </Space>
                ),
              },
            ]}
          />
        )}
      </Outcome>
      <h2>{t('invitations.title')}</h2>
      <Invitations mayWrite={mayWrite} />
      {open?.what === 'invite' && <InvitePerson onClose={close} />}
      {open?.what === 'role' && <ChangeRole member={open.member} onClose={close} />}
      {open?.what === 'remove' && (
        <ConfirmByName
          open
          title={t('members.remove', { name: open.member.email })}
          text={t('members.remove_text')}
          name={open.member.email}
          action={t('action.remove')}
          onClose={close}
          run={async () => {
            const { member } = open;
            await got(
              api.DELETE('/v1/members/{id}', {
                params: { path: { id: member.id }, header: { 'If-Match': etag(member) } },
              }),
            );
            void message.success(t('members.removed', { name: member.email }));
            await queries.invalidateQueries({ queryKey: ['members'] });
          }}
        />
      )}
      {open?.what === 'leave' && me.data?.email && (
        <ConfirmByName
          open
          title={t('members.leave')}
          text={t('members.leave_text')}
          name={me.data.email}
          action={t('members.leave')}
          onClose={close}
          run={async () => {
            await got(api.POST('/v1/members/actions/leave'));
            go('/sign-in', 'replace');
            forgetSecrets();
            session.drop();
          }}
        />
      )}
    </>
  );
}

function ChangeRole({ member, onClose }: { member: Schemas['Member']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['MemberUpdate']>();
  const { busy, problem, save } = useSave<Schemas['MemberUpdate']>(form, async (v) => {
    await got(
      api.PATCH('/v1/members/{id}', {
        params: { path: { id: member.id }, header: { 'If-Match': etag(member) } },
        body: { role: v.role },
      }),
    );
    void message.success(t('state.saved'));
    onClose();
    await queries.invalidateQueries({ queryKey: ['members'] });
  });
  return (
    <Modal
      open
      title={t('members.role_of', { name: member.email })}
      okText={t('action.save')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
    >
      <p>{t('members.role_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form form={form} name="member" layout="vertical" onFinish={save} initialValues={{ role: member.role }}>
        <Form.Item name="role" label={t('account.role')} rules={[{ required: true, message: t('form.required') }]}>
          <Select options={memberRoles.map((r) => ({ value: r, label: `${t(`role.${r}`)}: ${t(`role_may.${r}`)}` }))} />
        </Form.Item>
      </Form>
    </Modal>
  );
}
