import { Button, Checkbox, Form, Input, Select } from 'antd';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../../../api/client';
import { durationText } from '../../../lib/duration';
import { useLocale, useNamespaces } from '../../data';

const permissions = ['PUB', 'SUB', 'MANAGE', 'DESCRIBE'] as const;
export const controlRoles = ['viewer', 'developer', 'billing', 'admin'] as const satisfies Schemas['ControlRole'][];

/** Words that are typed one after another, such as patterns or addresses. */
function Words(props: { name: (string | number)[] | string; label: string; hint: string }) {
  return (
    <Form.Item name={props.name} label={props.label} extra={props.hint}>
      <Select mode="tags" open={false} suffixIcon={null} tokenSeparators={[' ', ',']} />
    </Form.Item>
  );
}

export function AddressesField() {
  const { t } = useTranslation();
  return <Words name="allowed_cidrs" label={t('keys.cidrs')} hint={t('keys.cidrs_hint')} />;
}

/** What may be reached in which namespaces, from where and until when; for keys and workload identities. */
export function ScopesField() {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  return (
    <Form.List name="scopes">
      {(fields, { add, remove }) => (
        <fieldset className="list">
          <legend>{t('keys.scopes')}</legend>
          {fields.map((f) => (
            <div key={f.key} className="scope">
              <Form.Item
                name={[f.name, 'namespace_id']}
                label={t('nav.namespace')}
                rules={[{ required: true, message: t('form.required') }]}
              >
                <Select
                  showSearch={{ optionFilterProp: 'label' }}
                  options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
                />
              </Form.Item>
              <Form.Item
                name={[f.name, 'permissions']}
                label={t('keys.permissions')}
                rules={[
                  // Not "required": that would put aria-required on a group of boxes, which must not have it.
                  {
                    validator: (_, v: string[] | undefined) =>
                      v && v.length > 0 ? Promise.resolve() : Promise.reject(new Error(t('form.required'))),
                  },
                ]}
              >
                <Checkbox.Group options={permissions.map((p) => ({ value: p, label: t(`permission.${p}`) }))} />
              </Form.Item>
              <div className="row">
                <Words name={[f.name, 'topics']} label={t('keys.topics')} hint={t('keys.pattern_hint')} />
                <Words name={[f.name, 'groups']} label={t('keys.groups')} hint={t('keys.pattern_hint')} />
              </div>
              <div className="row">
                <Words name={[f.name, 'cidrs']} label={t('keys.scope_cidrs')} hint={t('keys.scope_cidrs_hint')} />
                <Form.Item
                  name={[f.name, 'expires_at']}
                  label={t('keys.scope_expires')}
                  extra={t('keys.scope_expires_hint')}
                >
                  <Input type="datetime-local" step={1} />
                </Form.Item>
              </div>
              <Button onClick={() => remove(f.name)}>{t('keys.remove_scope')}</Button>
            </div>
          ))}
          <Button onClick={() => add({ permissions: ['PUB', 'SUB'] })}>{t('keys.add_scope')}</Button>
        </fieldset>
      )}
    </Form.List>
  );
}

/** When the key ends, at the latest at the age that the tenant allows. */
export function ExpiryField(props: { maxAge: string | undefined; needed?: boolean; label?: string }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const { maxAge, needed } = props;
  return (
    <Form.Item
      name="expires_at"
      label={props.label ?? t('keys.expires')}
      extra={maxAge ? t('keys.max_age', { age: durationText(maxAge, locale) }) : t('keys.expires_hint')}
      rules={needed ? [{ required: true, message: t('form.required') }] : []}
    >
      <Input type="datetime-local" step={1} />
    </Form.Item>
  );
}
