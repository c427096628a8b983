import { useQueryClient } from '@tanstack/react-query';
import { App, Checkbox, Form, Input, Modal } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { useMe } from '../../data';
import { ProblemView } from '../../ui';
import { useSave } from '../../useSave';
import { useRoles } from './names';
import { families } from './permissions';

interface Values {
  name: string;
  description?: string;
  permissions: Schemas['Permission'][];
}

/** Makes a role of one's own, or changes one. */
export function RoleDialog({ role, onClose }: { role?: Schemas['CustomRole']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const [form] = Form.useForm<Values>();
  const { busy, problem, save } = useSave<Values>(form, async (v) => {
    const body = { name: v.name.trim(), description: v.description?.trim() ?? '', permissions: v.permissions };
    if (role) {
      await got(
        api.PATCH('/v1/roles/{id}', {
          params: { path: { id: role.id }, header: { 'If-Match': etag(role) } },
          body,
        }),
      );
    } else {
      await got(api.POST('/v1/roles', { body }));
    }
    void message.success(role ? t('state.saved') : t('roles.created', { name: body.name }));
    onClose();
    await queries.invalidateQueries({ queryKey: ['roles'] });
    await queries.invalidateQueries({ queryKey: ['me'] });
  });
  return (
    <Modal
      open
      title={role ? t('roles.edit', { name: role.name }) : t('roles.create')}
      okText={role ? t('action.save') : t('action.create')}
      okButtonProps={{ 'data-testid': 'submit-role' }}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={onClose}
      width={640}
    >
      <p className="muted">{role ? t('roles.edit_text') : t('roles.create_text')}</p>
      {problem && <ProblemView problem={problem} />}
      <Form
        form={form}
        name="role"
        layout="vertical"
        onFinish={save}
        initialValues={role ?? { permissions: ['namespace:read', 'topic:read', 'group:read'] }}
      >
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} autoFocus />
        </Form.Item>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
        <fieldset className="list">
          <legend>{t('roles.permits')}</legend>
          <Form.Item
            name="permissions"
            noStyle
            rules={[
              {
                validator: (_, v: string[] | undefined) =>
                  v && v.length > 0 ? Promise.resolve() : Promise.reject(new Error(t('roles.need_one'))),
              },
            ]}
          >
            <PermissionTable />
          </Form.Item>
          <Form.Item shouldUpdate noStyle>
            {() =>
              form.getFieldError('permissions').map((e) => (
                <p key={e} role="alert" className="bad-text">
                  {e}
                </p>
              ))
            }
          </Form.Item>
        </fieldset>
      </Form>
    </Modal>
  );
}

/** Every permission there is, a kind of object a line; what the user does not have they cannot give. */
function PermissionTable(props: {
  value?: Schemas['Permission'][];
  onChange?: (permissions: Schemas['Permission'][]) => void;
}) {
  const { t, i18n } = useTranslation();
  const me = useMe();
  const roles = useRoles();
  const all = roles.data?.find((r) => r.id === 'owner')?.permissions ?? [];
  const value = props.value ?? [];
  const set = (p: Schemas['Permission'], on: boolean) =>
    props.onChange?.(on ? [...value, p] : value.filter((v) => v !== p));
  const nameOf = (family: string) => {
    const key = `permission_of.${family}` as 'permission_of.topic';
    return i18n.exists(key) ? t(key) : family;
  };
  return (
    <table className="properties permissions">
      <thead>
        <tr>
          <th scope="col">{t('roles.object')}</th>
          <th scope="col">{t('roles.look')}</th>
          <th scope="col">{t('roles.change')}</th>
        </tr>
      </thead>
      <tbody>
        {families(all).map(({ family, read, write }) => (
          <tr key={family}>
            <th scope="row">{nameOf(family)}</th>
            {([read, write] as const).map((p, i) => (
              <td key={i === 0 ? 'read' : 'write'}>
                {p && (
                  <Checkbox
                    aria-label={`${nameOf(family)}: ${t(i === 0 ? 'roles.look' : 'roles.change')}`}
                    checked={value.includes(p)}
                    disabled={!me.data?.permissions.includes(p) && !value.includes(p)}
                    onChange={(e) => set(p, e.target.checked)}
                  >
                    <code>{p}</code>
                  </Checkbox>
                )}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
